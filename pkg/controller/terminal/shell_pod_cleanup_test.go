package terminal_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
	"kapis.dev/ks-apiserver/pkg/terminal/nodeshell"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

const bobUID = "0b0b0b0b-1111-4222-8333-444444444444"

var began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// pod returns the pod of a shell that runs.
func pod(name, user string) *corev1.Pod {
	p := nodeshell.Shell{Node: "n", Image: "i", Profile: nodeshell.General, User: user, UID: bobUID, Command: []string{"sh"}}.Pod()
	p.Name, p.GenerateName, p.UID, p.Status.Phase = name, "", types.UID("uid-"+name), corev1.PodRunning
	return p
}

func bob() *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "bob", UID: bobUID}, Status: iamv1beta1.UserStatus{State: iamv1beta1.UserActive}}
}

// fleet is a controller with a clock.
type fleet struct {
	*controllertest.Cluster
	*terminal.Controller
	now time.Time
}

func newFleet(t *testing.T, objects ...client.Object) *fleet {
	t.Helper()
	f := &fleet{Cluster: controllertest.New(t, nil, objects...), now: began}
	f.Controller = &terminal.Controller{Namespace: nodeshell.Namespace, Client: f.Cluster.Client, Live: f.Cluster.Client, Now: func() time.Time { return f.now }}
	f.Pods = func() []*corev1.Pod {
		var found corev1.PodList
		if err := f.Cluster.Client.List(t.Context(), &found, client.InNamespace(f.Namespace)); err != nil {
			t.Error(err)
		}
		pods := make([]*corev1.Pod, len(found.Items))
		for i := range pods {
			pods[i] = &found.Items[i]
		}
		return pods
	}
	return f
}

// has cleans, and checks which pods are there then.
func (f *fleet) has(t *testing.T, p *corev1.Pod, want bool) {
	t.Helper()
	if err := f.Clean(t.Context()); err != nil {
		t.Error(err)
	}
	if got := f.Has(p.DeepCopy()); got != want {
		t.Errorf("after %v: the pod is there: %v", f.now.Sub(began), got)
	}
}

func TestWhatNoServerServesIsDeleted(t *testing.T) { // O11
	p := pod("a", "bob")
	renewed := began.Add(-time.Hour) // the clock of the server is an hour late
	lease := shellpod.Lease(p, renewed)
	f := newFleet(t, bob(), p, lease)
	f.has(t, p, true)
	for range 9 { // three minutes, renewed
		f.now, renewed = f.now.Add(shellpod.RenewEvery), renewed.Add(shellpod.RenewEvery)
		before := lease.DeepCopy()
		lease.Spec.RenewTime = &metav1.MicroTime{Time: renewed}
		if err := f.Cluster.Client.Patch(t.Context(), lease, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		f.has(t, p, true)
	}
	f.now = f.now.Add(shellpod.LeaseDuration - time.Second)
	f.has(t, p, true)
	f.now = f.now.Add(time.Second)
	f.has(t, p, false)
}

func TestAPodWithoutALeaseIsDeleted(t *testing.T) { // O11
	p := pod("a", "bob")
	f := newFleet(t, bob(), p, shellpod.Lease(pod("another", "bob"), began))
	f.has(t, p, true)
	f.now = f.now.Add(shellpod.LeaseDuration - time.Second)
	f.has(t, p, true)
	f.now = f.now.Add(time.Second)
	f.has(t, p, false)
}

// A pod that takes the name of another is another.
func TestTheNextPodOfANameHasTimeOfItsOwn(t *testing.T) { // O11
	p := pod("a", "bob")
	f := newFleet(t, bob(), p)
	f.has(t, p, true)
	if err := f.Cluster.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	next := pod("a", "bob")
	next.UID, next.ResourceVersion = "another", ""
	if err := f.Cluster.Client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(shellpod.LeaseDuration)
	f.has(t, next, true)
	f.now = f.now.Add(shellpod.LeaseDuration)
	f.has(t, next, false)
}

func TestWhatHasEndedAndWhoseUserIsGoneIsDeleted(t *testing.T) { // O11
	phase := func(phase corev1.PodPhase) *corev1.Pod {
		p := pod("a", "bob")
		p.Status.Phase = phase
		return p
	}
	disabled, again := bob(), bob()
	disabled.Status.State, again.UID = iamv1beta1.UserDisabled, "1b0b0b0b-1111-4222-8333-444444444444"
	locked := bob()
	locked.Status.State = iamv1beta1.UserAuthLimitExceeded
	elsewhere := pod("a", "gone")
	elsewhere.Namespace = "default"
	unnamed := pod("a", "bob")
	unnamed.Annotations = nil
	ofHub, remade := bob(), bob()
	ofHub.Labels = map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}
	remade.Labels = ofHub.Labels
	ofHub.UID, ofHub.Annotations = again.UID, map[string]string{iamv1beta1.AnnotationFleetUID: bobUID}
	remade.Annotations = map[string]string{iamv1beta1.AnnotationFleetUID: string(again.UID)}
	remade.UID = "2b0b0b0b-1111-4222-8333-444444444444"
	local := bob()
	local.Annotations, local.Labels = remade.Annotations, remade.Labels
	unkept := bob()
	unkept.UID, unkept.Annotations = again.UID, ofHub.Annotations
	fromHub := func(user string) *corev1.Pod {
		p := pod("a", user)
		p.Annotations = nodeshell.Shell{User: user, FromHub: true}.Pod().Annotations
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		user *iamv1beta1.User
		want bool
	}{
		"It runs":                     {pod("a", "bob"), bob(), true},
		"It waits":                    {phase(corev1.PodPending), bob(), true},
		"It has succeeded":            {phase(corev1.PodSucceeded), bob(), false},
		"It has failed":               {phase(corev1.PodFailed), bob(), false},
		"The user is disabled":        {pod("a", "bob"), disabled, false},
		"The user must wait to login": {pod("a", "bob"), locked, true},
		"The user was made again":     {pod("a", "bob"), again, false},
		"The user is gone":            {pod("a", "gone"), bob(), false},
		"It names nobody":             {unnamed, bob(), false},
		"Of a service account":        {pod("a", "system:serviceaccount:a:b"), bob(), true},
		"In another namespace":        {elsewhere, bob(), true},
		"Of the hub's user":           {fromHub("bob"), ofHub, true},
		"The hub's was made again":    {fromHub("bob"), remade, false},
		"After a login here":          {pod("a", "bob"), local, true},
		"By an annotation alone":      {fromHub("bob"), unkept, false},
		"By a group of the hub alone": {fromHub("ann"), bob(), true},
		"The name is another's here":  {fromHub("bob"), again, false},
	} {
		t.Run(name, func(t *testing.T) {
			newFleet(t, c.user, c.pod, shellpod.Lease(c.pod, began)).has(t, c.pod, c.want)
		})
	}
}

// The pod of kubectl shells stays for a while after the last one, and goes with its user.
func TestThePodOfKubectlShellsIsDeleted(t *testing.T) { // O11
	disabled := bob()
	disabled.Status.State = iamv1beta1.UserDisabled
	for name, user := range map[string]*iamv1beta1.User{"the last shell was closed": bob(), "the user is disabled": disabled} {
		t.Run(name, func(t *testing.T) {
			p := kubectlshell.Shell{Image: "i", User: "bob", UID: bobUID}.Pod()
			p.UID, p.Status.Phase = "u", corev1.PodRunning
			f := newFleet(t, user, p, pod("a", "bob"), shellpod.Lease(p, began))
			f.Namespace = kubectlshell.Namespace
			f.has(t, p, user != disabled)
			f.now = f.now.Add(shellpod.LeaseDuration)
			f.has(t, p, false)
			f.has(t, pod("a", "bob"), true) // that of another kind is not its
		})
	}
}

// Without shells nothing is asked.
func TestNoShellCostsNoRequest(t *testing.T) { // O11
	c := &terminal.Controller{Pods: func() []*corev1.Pod { return nil }, Now: time.Now}
	if err := c.Clean(t.Context()); err != nil {
		t.Error(err)
	}
}

// What can't be deleted now is deleted later, and keeps no other.
func TestARefusedDeletionKeepsNoOtherPod(t *testing.T) { // O11
	a, b := pod("a", "gone"), pod("b", "gone")
	f := newFleet(t, a, b)
	f.Refuse = func(_ string, o client.Object) error {
		if o.GetName() == "a" {
			return errors.New("refused")
		}
		return nil
	}
	if err := f.Clean(t.Context()); err == nil || !f.Has(a.DeepCopy()) || f.Has(b.DeepCopy()) {
		t.Errorf("%v", err)
	}
	f.Refuse = nil
	f.has(t, a, false)
}
