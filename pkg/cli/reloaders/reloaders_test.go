package reloaders_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/reloaders"
	"github.com/liveconfig-csi/liveconfig/pkg/exec/reload"
)

const logs = "kubectl -n shop logs web-0 -c reload"

func sidecar(words ...string) corev1.Container {
	return corev1.Container{Name: "reload", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Command: words}
}

// pod is one that runs a reloader.
func pod(words ...string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{sidecar(words...)}}}
	p.Namespace, p.Name, p.Status.Phase = "shop", "web-0", corev1.PodRunning
	return p
}

func questions(p *corev1.Pod) (all []reloaders.Question) {
	for _, r := range reloaders.In(&p.Spec) {
		all = append(all, reloaders.Question{Pod: p, Reloader: r})
	}
	return all
}

// TestIn finds the containers that run liveconfig-reload, with the volumes that they watch.
func TestIn(t *testing.T) {
	t.Parallel()
	mounts := []corev1.VolumeMount{{Name: "root", MountPath: "/"}, {Name: "config", MountPath: "/etc/app/"}, {Name: "other", MountPath: "/etc/ap"}}
	for name, test := range map[string]struct {
		c    corev1.Container
		want string
	}{
		"the driver's image":           {corev1.Container{Command: []string{"/liveconfig-reload", "--watch=/etc/app", "--http=POST http://127.0.0.1"}}, "config"},
		"a copy, in arguments":         {corev1.Container{Args: []string{"/x/liveconfig-reload", "--watch", "/etc/app/dir", "--command", "x"}}, "config"},
		"behind another program":       {corev1.Container{Command: []string{"tini", "--"}, Args: []string{"liveconfig-reload", "--watch=/var"}}, "root"},
		"an image of that name":        {corev1.Container{Image: "host:5000/a/liveconfig-reload:v1@sha256:0", Args: []string{"--watch=/etc/app"}}, "config"},
		"the image with a command":     {corev1.Container{Image: "liveconfig-reload", Command: []string{"sh", "--watch=/etc/app"}}, "none"},
		"it only copies itself":        {corev1.Container{Command: []string{"/liveconfig-reload", "--copy-to=/x", "--watch=/etc/app"}}, "none"},
		"another program":              {corev1.Container{Command: []string{"nginx", "--watch=/etc/app"}}, "none"},
		"a flag with such a value":     {corev1.Container{Command: []string{"box", "--file=/liveconfig-reload", "--watch=/etc/app"}}, "none"},
		"the flag of its command":      {corev1.Container{Command: []string{"liveconfig-reload", "--command", "x", "--watch=/etc/app"}}, "none"},
		"the last of two is what runs": {corev1.Container{Command: []string{"liveconfig-reload", "--watch=/", "--watch=/etc/app"}}, "config"},
	} {
		test.c.Name, test.c.VolumeMounts = "reload", mounts
		early := corev1.PodSpec{InitContainers: []corev1.Container{test.c}}
		if got := reloaders.In(&early); len(got) > 0 {
			t.Errorf("%s: an init container that ends is found as %+v", name, got)
		}
		native := *test.c.DeepCopy()
		native.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		for _, spec := range []corev1.PodSpec{{Containers: []corev1.Container{test.c}}, {InitContainers: []corev1.Container{native}}} {
			got := "none"
			if found := reloaders.In(&spec); len(found) == 1 && found[0].Container == "reload" {
				got = found[0].Volume
			}
			if got != test.want {
				t.Errorf("%s: the volume is %s, want %s", name, got, test.want)
			}
		}
	}
}

// ask asks about a pod where the API server, with the pod behind it, answers so.
func ask(t *testing.T, p *corev1.Pod, answer http.HandlerFunc) reloaders.Answer {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	asker, err := reloaders.New(&rest.Config{Host: server.URL, BearerToken: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	all := asker.Ask(t.Context(), questions(p))
	if len(all) != 1 {
		t.Fatalf("Ask = %+v, want one answer", all)
	}
	return all[0]
}

// TestAsk reads a status at the port of --listen.
func TestAsk(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct{ listen, port string }{
		"the default":             {"--retries=1", "9533"},
		"another port":            {"--listen=:81", "81"},
		"an address of the pod's": {"--listen=$(POD_IP):82", "82"},
	} {
		got := ask(t, pod("/liveconfig-reload", "--watch=/x", test.listen), func(w http.ResponseWriter, r *http.Request) {
			if want := "/api/v1/namespaces/shop/pods/web-0:" + test.port + "/proxy/statusz"; r.URL.Path != want || r.Method != http.MethodGet {
				t.Errorf("%s: %s %s, want GET %s", name, r.Method, r.URL.Path, want)
			}
			_, _ = fmt.Fprint(w, `{"content":3,"files":1,"loaded":2,"failure":"the answer is 400","failed":3,"failedSince":"2026-01-02T12:00:00Z",`+
				`"nextTry":"2026-01-02T12:00:00Z","successes":1,"failures":4,"lastSuccess":"2026-01-02T12:00:00Z","later":"versions"}`)
		})
		want := reloaders.Answer{Status: reloaders.Status{
			Content: 3, Loaded: 2, Failure: "the answer is 400", Failed: 3, FailedSince: noon, NextTry: noon, LastSuccess: noon, Successes: 1, Failures: 4,
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheRealOne: all that is read is what liveconfig-reload writes.
func TestTheRealOne(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	program := reload.Handler(func() reload.Status {
		return reload.Status{
			Content: 1, Files: 2, Loaded: 3, Failure: "refused", Failed: 4, FailedSince: at(1), NextTry: at(2), LastSuccess: at(3),
			Successes: 5, Failures: 6, Took: time.Second, ReadAt: at(4),
		}
	})
	want := reloaders.Status{
		Content: 1, Loaded: 3, Failure: "refused", Failed: 4, FailedSince: at(1), NextTry: at(2), LastSuccess: at(3), Successes: 5, Failures: 6, ReadAt: at(4),
	}
	got := ask(t, pod("/liveconfig-reload", "--watch=/x"), func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/statusz"
		program.ServeHTTP(w, r)
	})
	if diff := cmp.Diff(reloaders.Answer{Status: want}, got); diff != "" {
		t.Errorf("Ask (-want +got):\n%s", diff)
	}
}

// TestForeignTexts are one line that is not too long.
func TestForeignTexts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ failure, want string }{
		"control characters":    {"a\x1b[2J\nb\u202e", `a\x1b[2J\nb\u202e`},
		"a long one":            {strings.Repeat("ö", 9000), strings.Repeat("ö", 500) + "…"},
		"a long one of escapes": {strings.Repeat("\x1b", 9000), strings.Repeat(`\x1b`, 125) + "…"},
	} {
		got := ask(t, pod("/liveconfig-reload", "--watch=/x"), func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"content": 1, "failure": test.failure})
		})
		if got.Err != nil || got.Status.Failure != test.want {
			t.Errorf("%s: Ask = %+v, want %s", name, got, test.want)
		}
	}
}

func refuse(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		answer := err.Status()
		answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		w.WriteHeader(int(answer.Code))
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func says(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, text)
	}
}

// TestUnavailable: without a status, there is a reason and a command that leads on.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	const notStatus = "its answer is not a status of liveconfig-reload"
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   reloaders.Unavailable
	}{
		"no right": {
			refuse(apierrors.NewForbidden(corev1.Resource("pods"), "web-0:9533", errors.New("no"))),
			reloaders.Unavailable{Why: "you may not ask it, which takes the verb get on pods/proxy in namespace shop", Type: logs},
		},
		"nothing listens": {
			refuse(apierrors.NewServiceUnavailable("dial tcp 10.0.0.1:9533:\nconnection refused")),
			reloaders.Unavailable{Why: "it does not answer", Detail: `dial tcp 10.0.0.1:9533:\nconnection refused`, Type: logs},
		},
		"another program":     {says(http.StatusNotFound, "<html>"), reloaders.Unavailable{Why: "its /statusz answers 404 Not Found", Type: logs}},
		"the pod refuses":     {says(http.StatusForbidden, "no"), reloaders.Unavailable{Why: "its /statusz answers 403 Forbidden", Type: logs}},
		"no JSON":             {says(http.StatusOK, "ok"), reloaders.Unavailable{Why: notStatus, Type: logs}},
		"other JSON":          {says(http.StatusOK, `{"loaded":1}`), reloaders.Unavailable{Why: notStatus, Type: logs}},
		"too long an answer":  {says(http.StatusOK, `{"content":1}`+strings.Repeat(" ", 1<<20)), reloaders.Unavailable{Why: "its answer has more than 65536 bytes", Type: logs}},
		"an answer that ends": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, reloaders.Unavailable{Why: "it cannot be asked", Type: logs}},
	} {
		got := ask(t, pod("/liveconfig-reload", "--watch=/x"), test.answer)
		if got.Err == nil {
			t.Errorf("%s: Ask = %+v, want why there is no status", name, got)
			continue
		}
		if test.want.Why == "it cannot be asked" { // The words are those of Go.
			got.Err.Detail = ""
		}
		if diff := cmp.Diff(test.want, *got.Err); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNotAsked: of a reloader that cannot answer, nothing is asked.
func TestNotAsked(t *testing.T) {
	t.Parallel()
	const isDown = "its container does not run"
	starts, waits := pod("/liveconfig-reload", "--watch=/x"), pod("/liveconfig-reload", "--watch=/x")
	starts.Status.Phase = corev1.PodPending
	waits.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "reload"}}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want reloaders.Unavailable
	}{
		"no port": {pod("/liveconfig-reload", "--watch=/x", "--listen="), reloaders.Unavailable{Why: "it answers nobody, because its --listen is empty", Type: logs}},
		"loopback": {
			pod("/liveconfig-reload", "--watch=/x", "--listen", "[::1]:81"),
			reloaders.Unavailable{
				Why:  "it answers in its pod only, by its --listen; forward the port and ask http://127.0.0.1:81/statusz",
				Type: "kubectl -n shop port-forward pod/web-0 81",
			},
		},
		"a port of a variable":          {pod("/liveconfig-reload", "--watch=/x", "--listen=:$(PORT)"), reloaders.Unavailable{Why: "its --listen :$(PORT) has no port that is known here", Type: logs}},
		"a pod that does not run":       {starts, reloaders.Unavailable{Why: isDown, Type: "kubectl -n shop describe pod web-0"}},
		"a container that does not run": {waits, reloaders.Unavailable{Why: isDown, Type: "kubectl -n shop describe pod web-0"}},
	} {
		got := ask(t, test.pod, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s: it is asked: %s", name, r.URL) })
		if diff := cmp.Diff(&test.want, got.Err); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestASidecarRunsBeforeItsPod: the phase of a pod is Pending until its init containers have ended.
func TestASidecarRunsBeforeItsPod(t *testing.T) {
	t.Parallel()
	p := pod("/liveconfig-reload", "--watch=/x")
	p.Status.Phase = corev1.PodPending
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "reload", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if got := ask(t, p, says(http.StatusOK, `{"content":1}`)); got.Err != nil || got.Status.Content != 1 {
		t.Errorf("Ask = %+v, want the status", got)
	}
}

// TestRedirects of a pod are not followed: they would get the user's credentials.
func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host is asked with Authorization %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	got := ask(t, pod("/liveconfig-reload", "--watch=/x"), func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer mine" {
			t.Errorf("the API server is asked without the user's credentials")
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	if want := "its /statusz answers 302 Found"; got.Err == nil || got.Err.Why != want {
		t.Errorf("Ask = %+v, want %q", got, want)
	}
}

// TestLimits: so many reloaders are asked in one command, and few at a time.
func TestLimits(t *testing.T) {
	t.Parallel()
	var now, most, all atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		all.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-time.After(2 * time.Millisecond)
		_, _ = fmt.Fprint(w, `{"content":1}`)
	}))
	t.Cleanup(server.Close)
	asker, err := reloaders.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	unasked := 0
	for range 2 { // One workload after another.
		var many []reloaders.Question
		for range 60 {
			many = append(many, questions(pod("/liveconfig-reload", "--watch=/x"))...)
		}
		for _, answer := range asker.Ask(t.Context(), many) {
			if answer.Err != nil {
				unasked++
			}
		}
	}
	if all.Load() != reloaders.Most || unasked != 20 || most.Load() > 8 {
		t.Errorf("%d are asked, %d are not, and %d at once; want %d, 20 and at most 8", all.Load(), unasked, most.Load(), reloaders.Most)
	}
}

// TestSilence of a pod does not stop the command.
func TestSilence(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	got := ask(t, pod("/liveconfig-reload", "--watch=/x"), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if want := "it did not answer in time"; got.Err == nil || got.Err.Why != want || time.Since(begin) > 10*time.Second {
		t.Errorf("Ask = %+v after %s, want %q", got, time.Since(begin), want)
	}
}
