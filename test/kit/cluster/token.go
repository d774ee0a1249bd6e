package cluster

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/keyutil"
)

// PodToken asks the API server for a token of the pod's service account that is bound to the pod, as a kubelet does for a
// CSI driver. The pod must exist. The token is good for one hour, or until the pod is deleted.
func (c *Cluster) PodToken(ctx context.Context, pod *corev1.Pod) (authenticationv1.TokenRequestStatus, error) {
	return c.Token(ctx, pod.Namespace, accountOf(pod), authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	})
}

func accountOf(pod *corev1.Pod) string { return cmp.Or(pod.Spec.ServiceAccountName, "default") }

// claim is an object that a token is bound to.
type claim struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// leeway is how much longer API servers accept a token than its claims allow, because clocks differ.
const leeway = time.Minute

// ShortToken is [Cluster.PodToken] for less than the ten minutes that the API server issues tokens for at least. It is
// signed with the cluster's own key. When the lifetime is over the API server refuses it, but for the ten seconds in which it
// remembers that it has accepted a token.
func (c *Cluster) ShortToken(
	ctx context.Context, pod *corev1.Pod, lifetime time.Duration,
) (authenticationv1.TokenRequestStatus, error) {
	account, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, accountOf(pod), metav1.GetOptions{})
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	now := time.Now()
	expires := now.Add(lifetime).Truncate(time.Second)
	token, err := c.sign(map[string]any{
		"iss": serviceAccountIssuer, "aud": []string{serviceAccountIssuer},
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Add(-leeway).Unix(),
		"sub": ServiceAccountUser(pod.Namespace, account.Name),
		"kubernetes.io": map[string]any{
			"namespace":      pod.Namespace,
			"serviceaccount": claim{account.Name, account.UID},
			"pod":            claim{pod.Name, pod.UID},
		},
	})
	return authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires)}, err
}

// sign makes a JSON Web Token as the API server would.
func (c *Cluster) sign(claims map[string]any) (string, error) {
	parsed, err := keyutil.PrivateKeyFromFile(c.TokenKeyFile())
	if err != nil {
		return "", fmt.Errorf("read the key of service-account tokens: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return "", fmt.Errorf("the key of service-account tokens is a %T", parsed)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode the claims of a token: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(payload)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	size := (key.Params().BitSize + 7) / 8
	signature := make([]byte, 2*size)
	r.FillBytes(signature[:size])
	s.FillBytes(signature[size:])
	return text + "." + encode(signature), nil
}
