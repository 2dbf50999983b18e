package installplan_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// X20: a plan that waits for an approval is enabled and disabled all the same, and what fails of that is tried again.
func TestX20WhatFailsWhileAPlanWaitsIsTriedAgain(t *testing.T) {
	w := newWorld(t, &extensionsv1alpha1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.shop", Labels: map[string]string{v1alpha1.LabelExtension: "shop"}},
		Status: extensionsv1alpha1.Status{State: extensionsv1alpha1.StateAvailable}})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.reconcile("shop")
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config, p.Spec.Enabled = "replicas: 2\n", false })
	away := errors.New("kube-apiserver is away")
	w.r.Client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*extensionsv1alpha1.APIService); ok && away != nil {
				return away
			}
			return c.Patch(ctx, o, p, opts...)
		}})
	key := client.ObjectKey{Name: "shop"}
	if _, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); !errors.Is(err, away) {
		t.Errorf("it is not tried again: %v", err)
	}
	if p := w.get("shop"); condition(p, "Approved") != "False NotApproved" || !p.Status.Enabled {
		t.Errorf("%q, enabled: %v", condition(p, "Approved"), p.Status.Enabled)
	}
	away = nil
	w.reconcile("shop")
	service := &extensionsv1alpha1.APIService{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "v1.shop"}, service); err != nil || service.Status.State != extensionsv1alpha1.StateDisabled {
		t.Errorf("%s %v", service.Status.State, err)
	}
}

// X20: a recommended version whose chart can't be read is looked at again, and followed once it can be; nothing else would say so.
func TestX20AnUpgradeFollowsOnceItsChartCanBeRead(t *testing.T) {
	w := newWorld(t, &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: v1alpha1.ExtensionStatus{RecommendedVersion: "1.1.0"}})
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "1.1.0", permissions, nil)
	chart := w.charts["shop-1.1.0"]
	delete(w.charts, "shop-1.1.0")
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Spec.UpgradeStrategy = v1alpha1.UpgradeAutomatic })
	w.reconcile("shop")
	again := w.reconcile("shop")
	if p := w.get("shop"); again != time.Minute || p.Status.Version != "1.0.0" || condition(p, "UpgradeAvailable") != "True ChartNotRead" ||
		condition(p, "Ready") != "True Ready" {
		t.Errorf("again in %v: %s runs, %q, %q", again, p.Status.Version, condition(p, "UpgradeAvailable"), condition(p, "Ready"))
	}
	before := w.writes
	if w.reconcile("shop"); w.writes != before {
		t.Errorf("%d writes while it waits", w.writes-before)
	}
	w.charts["shop-1.1.0"] = chart
	w.now = w.now.Add(again)
	w.reconcile("shop")
	if p := w.get("shop"); p.Status.Version != "1.1.0" || condition(p, "UpgradeAvailable") != "" {
		t.Errorf("%s runs, %q", p.Status.Version, condition(p, "UpgradeAvailable"))
	}
}

// slowCharts are at a repository that goes on sending until nobody waits for it any more.
type slowCharts struct{ bounded bool }

const dripping = "charts.example.com does not send the chart to its end"

func (c *slowCharts) Load(ctx context.Context, _ *v1alpha1.ExtensionVersion) ([]byte, error) {
	_, c.bounded = ctx.Deadline()
	return nil, &source.Failure{Reason: source.ReasonUnreachable, Message: dripping, Cause: errors.New("canary")}
}

// X10, X20: a chart that does not come to its end keeps no worker: it has a time, the plan says why, and it is read again.
func TestX20AChartHasItsTimeToBeRead(t *testing.T) {
	w, slow := newWorld(t), &slowCharts{}
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.r.Charts = slow
	again := w.reconcile("shop")
	c := meta.FindStatusCondition(w.get("shop").Status.Conditions, "Initialized")
	if !slow.bounded || again != time.Minute || c == nil || c.Reason != "ChartNotRead" || !strings.Contains(c.Message, dripping) ||
		strings.Contains(c.Message, "canary") {
		t.Errorf("bounded: %v, again in %v, %+v", slow.bounded, again, c)
	}
}

// counted are charts whose reads are counted.
type counted struct {
	charts

	reads int
}

func (c *counted) Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error) {
	c.reads++
	return c.charts.Load(ctx, v)
}

// X10, X20: an event, as those of workloads, reads no chart again that is not approved, or could not be read a moment ago; whatever may have changed that does.
func TestX20AChartIsNotReadAgainForEachEvent(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "1.1.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	read := &counted{charts: w.charts}
	w.r.Charts = read
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
	for range 5 {
		w.reconcile("shop")
	}
	if p := w.get("shop"); read.reads != 1 || condition(p, "Approved") != "False NotApproved" {
		t.Errorf("it was read %d times: %q", read.reads, condition(p, "Approved"))
	}
	chart := w.charts["shop-1.1.0"]
	delete(w.charts, "shop-1.1.0")
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationRetry] = "1" })
	read.reads = 0
	for range 5 {
		w.reconcile("shop")
	}
	w.now = w.now.Add(20 * time.Second)
	again := w.reconcile("shop")
	if p := w.get("shop"); read.reads != 1 || again != 40*time.Second || condition(p, "Initialized") != "False ChartNotRead" {
		t.Errorf("it was asked for %d times, and will be in %v: %q", read.reads, again, condition(p, "Initialized"))
	}
	w.now = w.now.Add(-time.Hour) // a clock that is set back
	if w.reconcile("shop"); read.reads != 2 {
		t.Errorf("it was asked for %d times", read.reads)
	}
	w.charts["shop-1.1.0"] = chart
	w.now = w.now.Add(time.Minute)
	w.reconcile("shop")
	w.change("shop", func(*v1alpha1.InstallPlan) {})
	w.reconcile("shop")
	if p := w.get("shop"); p.Status.Version != "1.1.0" {
		t.Errorf("once it is approved, %s runs: %q", p.Status.Version, condition(p, "Approved"))
	}
}

// X20, X25: an upgrade to the recommended version that has failed is settled: no event reads its chart, and one that can't be read has nothing done.
func TestX20AnAutomaticUpgradeThatFailedIsSettled(t *testing.T) {
	w := newWorld(t, &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Spec.UpgradeStrategy = v1alpha1.UpgradeAutomatic })
	w.reconcile("shop")
	w.version("shop", "1.1.0", permissions, nil)
	read := &counted{charts: w.charts}
	w.r.Charts = read
	e := &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
		t.Fatal(err)
	}
	e.Status.RecommendedVersion = "1.1.0"
	if err := w.client.Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	w.fails, w.rollsBack = []*helm.Error{{Reason: helm.ReasonFailed, Message: "a hook failed"}}, true
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) != 2 || p.Status.State != v1alpha1.StateUpgradeFailed || p.Status.Version != "1.0.0" {
		t.Fatalf("%d operations, %s of %s", len(w.applied), p.Status.State, p.Status.Version)
	}
	read.reads = 0
	for range 5 {
		w.reconcile("shop")
	}
	chart := w.charts["shop-1.1.0"]
	delete(w.charts, "shop-1.1.0")
	w.reconcile("shop")
	w.charts["shop-1.1.0"] = chart
	w.now = w.now.Add(2 * time.Minute)
	w.reconcile("shop")
	if p := w.get("shop"); read.reads > 0 || len(w.applied) != 2 || p.Status.State != v1alpha1.StateUpgradeFailed || condition(p, "Upgraded") != "False Failed" {
		t.Errorf("%d charts read, %d operations, %s, %q", read.reads, len(w.applied), p.Status.State, condition(p, "Upgraded"))
	}
}
