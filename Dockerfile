# All that runs in a cluster in one image without a shell: the driver mounts by system calls and runs no other program.
# deploy/image makes the same image without a container engine, and its tests compare the two.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
# The whole checkout, because the version comes from its git metadata.
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -buildvcs=true -trimpath -ldflags="-s -w" -o /out/ ./cmd/liveconfig-...

FROM scratch
# What the labels say; the programs know their version without.
ARG VERSION=devel
ARG REVISION
LABEL org.opencontainers.image.title="liveconfig" \
    org.opencontainers.image.source="https://github.com/liveconfig-csi/liveconfig" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
COPY --from=build /out/ /
ENTRYPOINT ["/liveconfig-driver"]
