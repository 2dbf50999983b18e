package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// A mix changes objects of several kinds, in proportions in which a control plane on the same two cores can make churnRate changes a
// second: kube-apiserver uses 2 ms of processor time for the status of a pod of 5.6 KB, 1 ms for that of a small one, and 0.7 ms for a
// ConfigMap or a Lease. All of them pass kube-apiserver and etcd.
const (
	// mixLabel marks the objects that a mix has created, with the number of its writer.
	mixLabel = "bench/mix"
	// mixBurst is how many ConfigMaps a writer creates before it deletes them all with one request.
	mixBurst = 50
	// mixLarge is how many of the benchmark's pods a writer changes, mixOwn how many objects of any other kind.
	mixLarge, mixOwn = 4, 20
)

// mixed describes a mix for readers of the figures.
const mixed = "the status of pods of 5.6 KB (4 %) and of small pods (4 %), data of ConfigMaps (15 %), Leases (26 %), ConfigMaps created (26 %) " +
	"and deleted 50 at a time (26 %)"

// mixLists are the lists that show the objects of a mix: pods, ConfigMaps, Leases.
var mixLists = [...]string{podLists, "/kapis/resources.kubesphere.io/v1alpha3/configmaps", "/kapis/coordination.k8s.io/v1/leases"}

// mixTurns are the writes that a writer makes one after the other. Each ConfigMap that is created is deleted later.
var mixTurns = [...]func(*mixer, context.Context) (int, error){
	(*mixer).lease, (*mixer).create, (*mixer).config, (*mixer).lease, (*mixer).create, (*mixer).create, (*mixer).lease,
	(*mixer).lease, (*mixer).config, (*mixer).create, (*mixer).large, (*mixer).lease, (*mixer).config, (*mixer).create,
	(*mixer).create, (*mixer).lease, (*mixer).small, (*mixer).create, (*mixer).config, (*mixer).lease,
}

// mix is the objects that a mixture of changes is made of.
type mix struct{ mixers []*mixer }

// mixer is one writer of a mix. It changes objects of its own, so that no two writes conflict.
type mixer struct {
	kube   kubernetes.Interface
	id     int
	turn   int
	pods   []*corev1.Pod
	little []*corev1.Pod
	maps   []*corev1.ConfigMap
	leases []*coordinationv1.Lease
	made   int // ConfigMaps since the last burst
	names  int // of ConfigMaps that were given
}

// newMix creates the objects that a mix of so many writers needs besides the first pods of the benchmark.
func newMix(ctx context.Context, kube kubernetes.Interface, writers int) (*mix, error) {
	m := &mix{}
	group, ctx := errgroup.WithContext(ctx)
	for id := range writers {
		w := &mixer{kube: kube, id: id, turn: rand.IntN(len(mixTurns))} //nolint:gosec // no secret
		m.mixers = append(m.mixers, w)
		group.Go(func() error { return w.prepare(ctx) })
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(fmt.Errorf("make the objects that change: %w", err), m.clean(context.WithoutCancel(ctx), kube))
	}
	return m, nil
}

// writers returns the writers of one churn; the next churn begins after its end.
func (m *mix) writers() []writer {
	writers := make([]writer, len(m.mixers))
	for i, w := range m.mixers {
		writers[i] = w.write
	}
	return writers
}

// clean deletes what the mix has created.
func (m *mix) clean(ctx context.Context, kube kubernetes.Interface) error {
	now := int64(0)
	var errs []error
	for i := range namespaces {
		ns, all := podNamespace(i), metav1.ListOptions{LabelSelector: mixLabel}
		errs = append(errs,
			kube.CoreV1().Pods(ns).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, all),
			kube.CoreV1().ConfigMaps(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
			kube.CoordinationV1().Leases(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete the objects that changed: %w", err)
	}
	return nil
}

// unmanaged makes kube-apiserver drop managedFields. Updating them is most of what a change of a pod costs it, and is not measured.
var unmanaged = []byte(`{"metadata":{"managedFields":[{}]}}`)

func (w *mixer) prepare(ctx context.Context) (err error) {
	for j := range mixLarge {
		i := w.id + j*churners
		p, err := w.kube.CoreV1().Pods(podNamespace(i)).Patch(ctx, podName(i), types.MergePatchType, unmanaged, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		w.pods = append(w.pods, p)
	}
	for j := range mixOwn {
		meta := w.meta(j, fmt.Sprintf("mix-%02d-%02d", w.id, j))
		p := &corev1.Pod{ObjectMeta: meta, Spec: smallSpec()}
		if p, err = ensure(ctx, w.kube.CoreV1().Pods(meta.Namespace), p); err == nil {
			p, err = w.kube.CoreV1().Pods(meta.Namespace).Patch(ctx, meta.Name, types.MergePatchType, unmanaged, metav1.PatchOptions{})
		}
		if err != nil {
			return err
		}
		c, err := ensure(ctx, w.kube.CoreV1().ConfigMaps(meta.Namespace), &corev1.ConfigMap{ObjectMeta: meta, Data: configData()})
		if err != nil {
			return err
		}
		l, err := ensure(ctx, w.kube.CoordinationV1().Leases(meta.Namespace), &coordinationv1.Lease{ObjectMeta: meta})
		if err != nil {
			return err
		}
		w.little, w.maps, w.leases = append(w.little, p), append(w.maps, c), append(w.leases, l)
	}
	return nil
}

// kept is the part of a client that ensure needs.
type kept[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
}

// ensure creates an object, or takes over one of an interrupted run.
func ensure[T metav1.Object](ctx context.Context, client kept[T], o T) (T, error) {
	made, err := client.Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return client.Get(ctx, o.GetName(), metav1.GetOptions{})
	}
	return made, err
}

func (w *mixer) meta(j int, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: podNamespace(w.id + j),
		Labels: map[string]string{mixLabel: strconv.Itoa(w.id), quarterLabel: strconv.Itoa(j % 4)},
	}
}

func smallSpec() corev1.PodSpec {
	no := false
	return corev1.PodSpec{
		SchedulerName: "bench-nobody", AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/shop/app:v1"}},
	}
}

func configData() map[string]string {
	return map[string]string{"revision": strconv.FormatUint(rand.Uint64(), 36)} //nolint:gosec // no secret
}

// write makes the next change.
func (w *mixer) write(ctx context.Context) (int, error) {
	w.turn++
	n, err := mixTurns[w.turn%len(mixTurns)](w, ctx)
	if err != nil {
		return 0, fmt.Errorf("make a change: %w", err)
	}
	return n, nil
}

func (w *mixer) large(ctx context.Context) (int, error) { return w.status(ctx, w.pods) }
func (w *mixer) small(ctx context.Context) (int, error) { return w.status(ctx, w.little) }

func (w *mixer) status(ctx context.Context, pods []*corev1.Pod) (int, error) {
	p := pods[rand.IntN(len(pods))]                          //nolint:gosec // no secret
	p.ResourceVersion = ""                                   // of any version
	p.Status.Message = strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // no secret
	_, err := w.kube.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	return 1, err
}

func (w *mixer) config(ctx context.Context) (int, error) {
	c := w.maps[rand.IntN(len(w.maps))] //nolint:gosec // no secret
	c.ResourceVersion = ""              // of any version
	c.Data = configData()
	_, err := w.kube.CoreV1().ConfigMaps(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return 1, err
}

func (w *mixer) lease(ctx context.Context) (n int, err error) {
	l := &w.leases[rand.IntN(len(w.leases))] //nolint:gosec // no secret
	now := metav1.NowMicro()
	(*l).Spec.RenewTime = &now
	*l, err = w.kube.CoordinationV1().Leases((*l).Namespace).Update(ctx, *l, metav1.UpdateOptions{})
	return 1, err
}

// create creates a ConfigMap, and deletes all of them once there are many.
func (w *mixer) create(ctx context.Context) (int, error) {
	const burst = "bench/burst"
	ns := podNamespace(w.id)
	if w.made == mixBurst {
		w.made = 0
		selector := metav1.ListOptions{LabelSelector: burst + "=" + strconv.Itoa(w.id)}
		return mixBurst, w.kube.CoreV1().ConfigMaps(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, selector)
	}
	w.names++
	c := &corev1.ConfigMap{ObjectMeta: w.meta(0, fmt.Sprintf("burst-%02d-%s-%d", w.id, strconv.FormatUint(rand.Uint64(), 36), w.names)), Data: configData()} //nolint:gosec // no secret
	c.Labels[burst] = strconv.Itoa(w.id)
	_, err := w.kube.CoreV1().ConfigMaps(ns).Create(ctx, c, metav1.CreateOptions{})
	w.made++
	return 1, err
}
