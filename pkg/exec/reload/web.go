package reload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostAnswer is how many bytes of an answer are looked at.
	mostAnswer = 8 << 20
	// verifyPause is between looks whether the program works: some read their files after they have
	// answered.
	verifyPause = 200 * time.Millisecond
)

// Web asks programs over HTTP. It follows no redirects, uses no proxy, and keeps no connections.
type Web struct{ client *http.Client }

// errRemote is why a connection is not made.
var errRemote = errors.New("it is not an address of this pod (127.0.0.1, ::1): use --allow-remote if that is wanted")

// NewWeb returns one that connects to loopback addresses only.
func NewWeb() *Web { return newWeb(&net.Dialer{Control: onlyLoopback}) }

// NewRemoteWeb returns one that connects to any address.
func NewRemoteWeb() *Web { return newWeb(&net.Dialer{}) }

func newWeb(dialer *net.Dialer) *Web {
	return &Web{&http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// onlyLoopback decides by the address of the connection, whatever name it comes from.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Unmap().IsLoopback() {
		return errRemote
	}
	return nil
}

// CheckURL returns what is wrong with a URL before it is used.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("it must begin with http:// or https:// and name a host, such as http://127.0.0.1:9090/-/reload")
	}
	return nil
}

// Expect are the status codes of an answer that means yes.
type Expect struct{ First, Last int }

// Request is one that has a program read its files.
type Request struct {
	Method, URL string
	Header      http.Header
	Expect      []Expect
}

// Send sends a request. Nothing of the answer but its status is in the error: it may have parts of
// files.
func (w *Web) Send(ctx context.Context, r Request) error {
	answer, err := w.do(ctx, r.Method, r.URL, r.Header)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, mostAnswer) // The program may wait until it is read.
	for _, e := range r.Expect {
		if e.First <= answer.StatusCode && answer.StatusCode <= e.Last {
			return nil
		}
	}
	return fmt.Errorf("%s %s: the answer is %d %s", r.Method, r.URL, answer.StatusCode,
		http.StatusText(answer.StatusCode))
}

func (w *Web) do(ctx context.Context, method, to string, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, to, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header = header.Clone()
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	answer, err := w.client.Do(request)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%s %s: %w: connection refused", method, to, ErrNotUp)
	case errors.Is(err, errRemote):
		return nil, fmt.Errorf("%s %s: %w", method, to, errRemote)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s %s: no answer in time", method, to)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, to, withoutContent(err))
	}
	return answer, nil
}

// errNoHTTP is the error of an answer that cannot be parsed. It does not quote the answer, which
// may have parts of files.
var errNoHTTP = errors.New("the answer is not HTTP")

// withoutContent returns an error of a request, without parts of the answer.
func withoutContent(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	_, isOfConnection := errors.AsType[*net.OpError](err)
	_, isOfCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case isOfConnection, isOfCertificate, errors.Is(err, http.ErrSchemeMismatch):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed before the answer ended")
	}
	return errNoHTTP
}

// Verification is what an answer must have, and must not have.
type Verification struct {
	URL             string
	Header          http.Header
	Contains, Lacks []string
}

// Verify asks until the answer is as it must be, or the context ends.
func (w *Web) Verify(ctx context.Context, v Verification) error {
	for {
		err := w.verifyOnce(ctx, v)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(verifyPause):
		}
	}
}

func (w *Web) verifyOnce(ctx context.Context, v Verification) error {
	answer, err := w.do(ctx, http.MethodGet, v.URL, v.Header)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer answer.Body.Close()
	const okFirst, okLast = 200, 299
	if answer.StatusCode < okFirst || answer.StatusCode > okLast {
		return fmt.Errorf("verify %s: the answer is %d %s", v.URL, answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("verify %s: %w", v.URL, withoutContent(err))
	case len(body) > mostAnswer:
		return fmt.Errorf("verify %s: the answer has more than %d bytes", v.URL, mostAnswer)
	}
	for _, text := range v.Contains {
		if !has(string(body), text) {
			return fmt.Errorf("verify %s: the answer lacks %q", v.URL, text)
		}
	}
	for _, text := range v.Lacks {
		if has(string(body), text) {
			return fmt.Errorf("verify %s: the answer has %q", v.URL, text)
		}
	}
	return nil
}

// metricLine is a sample of a metric with its value.
var metricLine = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})? +[-+0-9.eEInfNa]+$`)

// has reports whether an answer has a text. One that is a sample of a metric must be a whole line:
// «x 1» is not in «x 10».
func has(answer, text string) bool {
	if !metricLine.MatchString(text) {
		return strings.Contains(answer, text)
	}
	want := strings.Join(strings.Fields(text), " ")
	for line := range strings.Lines(answer) {
		if strings.Join(strings.Fields(line), " ") == want {
			return true
		}
	}
	return false
}
