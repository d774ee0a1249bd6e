package release

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// chaos does whatever can happen to a release, in any order.
type chaos struct {
	*site

	random *rand.Rand
	did    []string
	number int // Of the last edit.
	seen   observations
	record copies
}

// observations are the values that pods have had.
type observations struct {
	mu     sync.Mutex // Guards values.
	values map[*corev1.Pod]map[string]bool
}

// copies are all states that the stable copy has had.
type copies struct {
	mu     sync.Mutex // Guards the fields below.
	states map[string]copyState
}

type copyState struct {
	value    string
	exposure release.Exposure
}

// TestAnyOrder: edits, pods that fail, people, a controller and a driver that are killed, an API server that is away. A pod
// never has a value that was neither stable nor exposed to it, and in the end a good edit reaches all.
func TestAnyOrder(t *testing.T) { // It is alone on the cluster, whose API server goes away.
	seed := rand.Uint64()
	c := &chaos{
		site: newSite(t), random: rand.New(rand.NewPCG(seed, 0)), seen: observations{values: map[*corev1.Pod]map[string]bool{}},
		record: copies{states: map[string]copyState{}},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d: %s", seed, strings.Join(c.did, ", "))
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	c.number = 1
	c.createEdit()
	c.replicas(8, web)
	watching.Go(func() { c.observe(ctx) })
	watching.Go(func() { c.follow(ctx) })
	actions := map[string]func(){
		"edit": c.nextEdit, "edit again": c.nextEdit, "pod fails": c.failPod, "pods recover": c.recoverPods, "kill controller": c.restartController,
		"kill driver": c.restartDriver, "API server away": c.outage, "person": c.person, "wait": func() {},
	}
	names := slices.Sorted(maps.Keys(actions))
	for range soak.Rounds(40, 2000) {
		name := names[c.random.IntN(len(names))]
		c.did = append(c.did, name)
		actions[name]()
		<-time.After(time.Duration(c.random.IntN(400)) * time.Millisecond)
	}
	c.recoverPods()
	c.nextGoodEdit()
	c.wantNumber(strconv.Itoa(c.number))
	stop()
	watching.Wait()
	c.judge()
}

func dataOf(number int) map[string]string {
	return map[string]string{"a": environment.Marked(strconv.Itoa(number)), "n": strconv.Itoa(number)}
}

func (c *chaos) createEdit() {
	c.T.Helper()
	const annotation = `{steps: [1, 50%], pause: 300ms, validate: [{key: n, format: yaml, cel: "self % 5 != 0"}]}`
	_, err := c.ConfigMaps().Create(c.T.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{release.Annotation: annotation}}, Data: dataOf(c.number),
	}, metav1.CreateOptions{})
	must(c.T, err)
	c.wantState("", 0)
}

func (c *chaos) nextEdit() {
	c.number++
	c.eventually(func() error {
		m, err := c.ConfigMaps().Get(c.T.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		m.Data = dataOf(c.number)
		_, err = c.ConfigMaps().Update(c.T.Context(), m, metav1.UpdateOptions{})
		return err
	})
}

func (c *chaos) nextGoodEdit() {
	if c.number%5 == 4 {
		c.number++
	}
	c.nextEdit()
}

// failPod has a pod that has the newest edit, or another one, be no longer ready.
func (c *chaos) failPod() {
	pod := c.pods[c.random.IntN(len(c.pods))]
	for _, other := range c.pods {
		if value, _ := c.valueOf(other); value == strconv.Itoa(c.number) {
			pod = other
		}
	}
	c.eventually(func() error { return c.writeStatus(c.T.Context(), pod.Name, corev1.ConditionFalse, 0) })
}

func (c *chaos) recoverPods() {
	for _, pod := range c.pods {
		c.eventually(func() error { return c.writeStatus(c.T.Context(), pod.Name, corev1.ConditionTrue, 0) })
	}
}

func (c *chaos) restartController() {
	c.kill()
	<-time.After(time.Duration(c.random.IntN(300)) * time.Millisecond)
	c.start()
}

func (c *chaos) restartDriver() {
	c.Kill()
	c.Start()
}

func (c *chaos) outage() {
	must(c.T, c.Cluster.KillAPIServer())
	<-time.After(time.Duration(soak.Rounds(500, c.random.IntN(20_000))) * time.Millisecond)
	must(c.T, c.Cluster.StartAPIServer(c.T.Context()))
}

// person promotes, reverts or freezes what is under way, as the plugin does.
func (c *chaos) person() {
	ref := api.Ref{Kind: api.ConfigMap, Namespace: c.Namespace, Name: "web"}
	client := c.Cluster.Client()
	source, err := stable.Read(c.T.Context(), client, ref)
	must(c.T, err)
	copied, err := stable.Read(c.T.Context(), client, release.StableOf(ref))
	must(c.T, err)
	if source.Digest == copied.Digest {
		return
	}
	writer := stable.Writer{Client: client, Manager: "somebody"}
	e := release.Exposure{Digest: source.Digest, State: release.Reverted, Since: time.Now()}
	if c.random.IntN(2) == 0 {
		_, err = writer.Write(c.T.Context(), copied, stable.Annotate(copied.Annotations, e), nil)
	} else {
		_, err = writer.Write(c.T.Context(), copied, stable.AnnotatePromoted(copied.Annotations, source.Digest, time.Now(), ""), &source)
	}
	if err != nil {
		c.did = append(c.did, "(somebody was faster)")
	}
}

// valueOf returns the value that a pod has.
func (c *chaos) valueOf(pod *corev1.Pod) (string, error) {
	text, err := os.ReadFile(c.Path(pod, "a"))
	return strings.ReplaceAll(string(text), environment.Mark, ""), err
}

// observe looks at the files of all pods until ctx ends.
func (c *chaos) observe(ctx context.Context) {
	for ctx.Err() == nil {
		for _, pod := range c.pods {
			value, err := c.valueOf(pod)
			if err != nil {
				value = err.Error()
			}
			c.seen.mu.Lock()
			if c.seen.values[pod] == nil {
				c.seen.values[pod] = map[string]bool{}
			}
			c.seen.values[pod][value] = true
			c.seen.mu.Unlock()
		}
		<-time.After(time.Millisecond)
	}
}

// follow records every state of the stable copy, until ctx ends.
func (c *chaos) follow(ctx context.Context) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "web"+release.Suffix).String()}
	for ctx.Err() == nil {
		w, err := c.ConfigMaps().Watch(ctx, options)
		if err != nil {
			<-time.After(20 * time.Millisecond)
			continue
		}
		for event := range w.ResultChan() {
			m, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				options.ResourceVersion = "" // The API server does not know the version any more.
				break
			}
			e, _ := release.ParseExposure(m.Annotations[release.ExposureAnnotation])
			c.record.mu.Lock()
			c.record.states[m.ResourceVersion] = copyState{value: m.Data["n"], exposure: e}
			c.record.mu.Unlock()
			options.ResourceVersion = m.ResourceVersion
		}
		w.Stop()
	}
}

// wantNumber waits until all pods have a value.
func (c *chaos) wantNumber(want string) {
	c.T.Helper()
	environment.Eventually(c.T, 2*soon, func() error {
		for _, pod := range c.pods {
			if got, err := c.valueOf(pod); err != nil || got != want {
				return fmt.Errorf("pod %s has %s, %w, want %s", pod.Name, got, err, want)
			}
		}
		return nil
	})
}

// judge compares what pods have had with what the stable copy has ever allowed.
func (c *chaos) judge() {
	c.T.Helper()
	for pod, values := range c.seen.values {
		for value := range values {
			number, err := strconv.Atoi(value)
			if err != nil {
				c.T.Errorf("pod %s has had %q", pod.Name, value)
				continue
			}
			digest := release.Digest(map[string][]byte{"a": []byte(dataOf(number)["a"]), "n": []byte(value)})
			isAllowed := false
			for _, s := range c.record.states {
				isAllowed = isAllowed || s.value == value || s.exposure.Shows(string(pod.UID), digest)
			}
			if !isAllowed {
				c.T.Errorf("pod %s has had %s, which was neither stable nor exposed to it", pod.Name, value)
			}
			if number%5 == 0 && !c.wasStable(value) {
				c.T.Errorf("pod %s has had %s, which breaks a rule and was not promoted by a person", pod.Name, value)
			}
		}
	}
}

func (c *chaos) wasStable(value string) bool {
	for _, s := range c.record.states {
		if s.value == value {
			return true
		}
	}
	return false
}
