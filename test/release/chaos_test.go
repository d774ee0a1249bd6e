package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// chaos does whatever can happen to the release of a group, in any order.
type chaos struct {
	*oracle

	random   *rand.Rand
	did      []string
	numbers  map[string]int // Of the last edit of each object.
	replaced int
}

const tlsName = "tls"

// both has a volume with both objects of the group.
var both = map[string]string{"sources": "[{configMap: {name: web}}, {secret: {name: tls}}]"}

// TestAnyOrder: edits of a ConfigMap and a Secret that are released together, pods that fail and that are replaced, people, a
// controller and a driver that are killed, an API server that is away. A pod never has a content that was neither stable nor
// exposed to it at that moment, and in the end a good edit reaches all.
func TestAnyOrder(t *testing.T) { // It is alone on the cluster, whose API server goes away.
	seed := rand.Uint64()
	c := &chaos{
		oracle: newOracle(newSite(t),
			&copyHistory{name: "web", file: "a", data: webData, mayHave: obeysRules},
			&copyHistory{name: tlsName, isSecret: true, file: "b", data: tlsData}),
		random: rand.New(rand.NewPCG(seed, 0)), numbers: map[string]int{"web": 1, tlsName: 1},
	}
	c.patience = time.Minute // The more often the API server was away, the longer a driver waits before it opens a watch again.
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d: %s", seed, strings.Join(c.did, ", "))
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	c.createGroup("{group: app, steps: [1, 50%], pause: 300ms, validate: [{key: n, format: yaml, cel: 'self % 5 != 0'}]}",
		"{group: app, steps: [1, 50%], pause: 300ms}")
	c.replicas(8, both)
	c.record(ctx, &watching)
	actions := map[string]func(){
		"edit web": c.editWeb, "edit tls": c.editTLS, "edit both": func() { c.editWeb(); c.editTLS() },
		"pod fails": c.failPod, "pods recover": c.recoverPods, "pod is replaced": c.replacePod,
		"kill controller": c.restartController, "kill driver": c.restartDriver, "API server away": c.outage,
		"person": c.person, "label": c.label, "wait": func() { <-time.After(2 * time.Second) },
	}
	names := slices.Sorted(maps.Keys(actions))
	for range soak.Rounds(40, 400) {
		name := names[c.random.IntN(len(names))]
		c.did = append(c.did, name)
		actions[name]()
		<-time.After(time.Duration(c.random.IntN(400)) * time.Millisecond)
	}
	c.recoverPods()
	if c.editWeb(); c.numbers["web"]%5 == 0 {
		c.editWeb()
	}
	c.editTLS()
	c.wantNumbers()
	stop()
	watching.Wait()
	c.judge()
}

// obeysRules: an edit that breaks the rule is seen only if a person has promoted it.
func obeysRules(number int, s copyState) bool {
	return number%5 != 0 || s.value == strconv.Itoa(number) || s.exposure.State == release.Promoting
}

func webData(number int) map[string]string {
	return map[string]string{"a": environment.Marked(strconv.Itoa(number)), "n": strconv.Itoa(number)}
}

func tlsData(number int) map[string]string {
	return map[string]string{"b": environment.Marked(strconv.Itoa(number))}
}

// createGroup creates both objects with their annotations.
func (o *oracle) createGroup(ofWeb, ofTLS string) {
	o.T.Helper()
	_, err := o.ConfigMaps().Create(o.T.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{release.Annotation: ofWeb}}, Data: webData(1),
	}, metav1.CreateOptions{})
	expect.NoError(o.T, err)
	_, err = o.Cluster.Client().CoreV1().Secrets(o.Namespace).Create(o.T.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: tlsName, Annotations: map[string]string{release.Annotation: ofTLS}}, StringData: tlsData(1),
	}, metav1.CreateOptions{})
	expect.NoError(o.T, err)
	o.eventually(o.haveCopies)
}

func (o *oracle) haveCopies() error {
	_, err := o.ConfigMaps().Get(o.T.Context(), "web"+release.Suffix, metav1.GetOptions{})
	if err == nil {
		_, err = o.Cluster.Client().CoreV1().Secrets(o.Namespace).Get(o.T.Context(), tlsName+release.Suffix, metav1.GetOptions{})
	}
	return err
}

// setWeb and setTLS make an edit of one object.
func (o *oracle) setWeb(number int) {
	o.T.Helper()
	o.eventually(func() error {
		m, err := o.ConfigMaps().Get(o.T.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		m.Data = webData(number)
		_, err = o.ConfigMaps().Update(o.T.Context(), m, metav1.UpdateOptions{})
		return err
	})
}

func (o *oracle) setTLS(number int) {
	o.T.Helper()
	secrets := o.Cluster.Client().CoreV1().Secrets(o.Namespace)
	o.eventually(func() error {
		s, err := secrets.Get(o.T.Context(), tlsName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Data, s.StringData = nil, tlsData(number)
		_, err = secrets.Update(o.T.Context(), s, metav1.UpdateOptions{})
		return err
	})
}

func (c *chaos) editWeb() {
	c.numbers["web"]++
	c.setWeb(c.numbers["web"])
}

func (c *chaos) editTLS() {
	c.numbers[tlsName]++
	c.setTLS(c.numbers[tlsName])
}

// label changes an object, but not its content.
func (c *chaos) label() {
	c.eventually(func() error {
		m, err := c.ConfigMaps().Get(c.T.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		m.Labels = map[string]string{"n": strconv.Itoa(c.random.Int())}
		_, err = c.ConfigMaps().Update(c.T.Context(), m, metav1.UpdateOptions{})
		return err
	})
}

// replacePod has a new pod take the place of one.
func (c *chaos) replacePod() {
	c.mu.Lock()
	i := c.random.IntN(len(c.pods))
	old := c.pods[i]
	c.gone[old] = true
	c.pods = slices.Delete(slices.Clone(c.pods), i, i+1)
	c.mu.Unlock()
	c.DeletePod(old.Name)
	c.Unpublish(old)
	c.replaced++
	next := c.publish(fmt.Sprint("new-", c.replaced), both)
	c.mu.Lock()
	c.pods = append(c.pods, next)
	c.mu.Unlock()
}

// failPod has a pod that has the newest edit, or another one, be no longer ready.
func (c *chaos) failPod() {
	pod := c.pods[c.random.IntN(len(c.pods))]
	for _, other := range c.pods {
		if c.Holds(other, "a", strconv.Itoa(c.numbers["web"])) == nil {
			pod = other
		}
	}
	c.eventually(func() error { return c.writeStatus(c.T.Context(), pod.Name, corev1.ConditionFalse, 0) })
}

// recoverPods has pods that are not Ready be Ready. As a kubelet does, it writes no new time for the others.
func (c *chaos) recoverPods() {
	for _, pod := range c.pods {
		c.eventually(func() error {
			now, err := c.Cluster.Client().CoreV1().Pods(c.Namespace).Get(c.T.Context(), pod.Name, metav1.GetOptions{})
			if err != nil || slices.ContainsFunc(now.Status.Conditions, isReady) {
				return err
			}
			return c.writeStatus(c.T.Context(), pod.Name, corev1.ConditionTrue, 0)
		})
	}
}

func isReady(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
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
	expect.NoError(c.T, c.Cluster.KillAPIServer())
	milliseconds := soak.Rounds(500, c.random.IntN(5000))
	if c.random.IntN(10) == 0 {
		milliseconds = soak.Rounds(500, 60_000) // As long as an upgrade of the control plane may take.
	}
	<-time.After(time.Duration(milliseconds) * time.Millisecond)
	expect.NoError(c.T, c.Cluster.StartAPIServer(c.T.Context()))
}

// person promotes, reverts or freezes what is under way, as the plugin does.
func (c *chaos) person() {
	what, reason := c.random.IntN(3), fmt.Sprint("by a person, ", len(c.did))
	writer := stable.Writer{Client: c.Cluster.Client(), Manager: "somebody"}
	for range 10 {
		u, objects, err := c.unit()
		expect.NoError(c.T, err)
		d := plan.Promotion(u, reason)
		if what > 0 {
			d = plan.End(u, []release.State{release.Reverted, release.Frozen}[what-1], reason)
		}
		switch {
		case d.Action == plan.Rest && d.After == 0, d.Action == plan.Promote && what > 0:
			return
		case d.Action == plan.Rest:
			<-time.After(d.After)
			continue
		}
		for i, o := range u.Objects {
			if !slices.Contains(d.Names, o.Name) {
				continue
			}
			source, copied := objects[i][0], objects[i][1]
			e := d.Exposure
			e.Digest = source.Digest
			if d.Action == plan.Promote {
				_, err = writer.Write(c.T.Context(), copied, stable.AnnotatePromoted(copied.Annotations, source.Digest, time.Now(), reason), &source)
			} else {
				_, err = writer.Write(c.T.Context(), copied, stable.Annotate(copied.Annotations, e), nil)
			}
			if err != nil {
				c.did = append(c.did, "(somebody was faster)")
				break
			}
		}
	}
}

// unit returns the group as the plugin sees it, and for each object the source and its copy.
func (c *chaos) unit() (u plan.Unit, objects [][2]stable.Object, err error) {
	u = plan.Unit{Now: time.Now(), Settings: settings.Settings{Group: "app", Steps: make([]settings.Step, 2)}}
	for _, ref := range []api.Ref{{Kind: api.ConfigMap, Namespace: c.Namespace, Name: "web"}, {Kind: api.Secret, Namespace: c.Namespace, Name: tlsName}} {
		source, err := stable.Read(c.T.Context(), c.Cluster.Client(), ref)
		if err != nil {
			return u, nil, err
		}
		copied, err := stable.Read(c.T.Context(), c.Cluster.Client(), release.StableOf(ref))
		if err != nil {
			return u, nil, err
		}
		objects = append(objects, [2]stable.Object{source, copied})
		u.Objects = append(u.Objects, plan.Object{
			Name: release.NameOf(ref), Version: source.Version, Candidate: source.Digest, Stable: copied.Digest, Exposure: copied.Exposure(),
			Together: copied.Together(), Rules: source.Annotation,
		})
	}
	return u, objects, nil
}

// wantNumbers waits until all pods have the last edits.
func (c *chaos) wantNumbers() {
	c.T.Helper()
	expect.Eventually(c.T, 2*soon, func() error {
		for _, pod := range c.pods {
			err := errors.Join(c.Holds(pod, "a", strconv.Itoa(c.numbers["web"])), c.Holds(pod, "b", strconv.Itoa(c.numbers[tlsName])))
			if err != nil {
				return fmt.Errorf("pod %s: %w", pod.Name, err)
			}
		}
		return nil
	})
}
