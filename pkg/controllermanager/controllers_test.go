package controllermanager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kapis.dev/ks-apiserver/pkg/kube"
)

func names(list []controller) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.name)
	}
	return out
}

func TestChoose(t *testing.T) {
	list := []controller{{name: "a"}, {name: "b"}, {name: "c"}}
	for name, c := range map[string]struct{ patterns, want []string }{
		"NothingIsAll":          {nil, []string{"a", "b", "c"}},
		"AStarIsAll":            {[]string{"*"}, []string{"a", "b", "c"}},
		"AMinusTakesAway":       {[]string{"*", "-b"}, []string{"a", "c"}},
		"NamesAreAllThatRun":    {[]string{"b"}, []string{"b"}},
		"AMinusWins":            {[]string{"b", "-b", "c"}, []string{"c"}},
		"AMinusAloneAddsNobody": {[]string{"-a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(list, c.patterns)
			if err != nil || !slices.Equal(names(got), c.want) {
				t.Errorf("got %v, %v, want %v", names(got), err, c.want)
			}
		})
	}
	for _, unknown := range []string{"d", "-d", "", "-", "-*"} {
		if _, err := choose(list, []string{"*", unknown}); err == nil || !strings.Contains(err.Error(), "there are a, b, c") {
			t.Errorf("%q: %v", unknown, err)
		}
	}
}

func TestEveryControllerNeedsWhatTheSchemeHas(t *testing.T) {
	scheme := kube.Scheme()
	seen := map[string]bool{}
	for _, c := range controllers(nil, nil, "host", configured{}) {
		if c.name == "" || seen[c.name] || c.setup == nil || len(c.needs) == 0 {
			t.Errorf("controller %q", c.name)
		}
		seen[c.name] = true
		for _, gvk := range c.needs {
			if !scheme.Recognizes(gvk) {
				t.Errorf("%s needs %s, which is no type of ours", c.name, gvk)
			}
		}
	}
	if slices.Contains(names(controllers(nil, nil, "", configured{})), "cluster") {
		t.Error("a member keeps a host's object")
	}
}

// mapper knows the kinds of its list, and returns its error for all others.
type mapper struct {
	meta.RESTMapper
	known map[string]bool
	err   error
}

func (m *mapper) RESTMapping(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	switch {
	case m.err != nil:
		return nil, m.err
	case !m.known[gk.Kind]:
		return nil, &meta.NoKindMatchError{GroupKind: gk}
	}
	return &meta.RESTMapping{}, nil
}

func needing(kind string, started *[]string, err error) controller {
	return controller{name: "of-" + kind, needs: []schema.GroupVersionKind{{Group: "g", Version: "v1", Kind: kind}},
		setup: func(context.Context, manager.Manager) error { *started = append(*started, kind); return err }}
}

func newTestStarter(t *testing.T, m *mapper, list ...controller) *crdGate {
	t.Helper()
	return &crdGate{mapper: m, poll: time.Millisecond, waiting: list, told: map[string]string{},
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "started"}, []string{"controller"})}
}

func TestAMissingCRDKeepsNobodyElseFromWorking(t *testing.T) {
	var started []string
	m := &mapper{known: map[string]bool{"A": true, "C": true}}
	s := newTestStarter(t, m, needing("A", &started, nil), needing("B", &started, nil), needing("C", &started, nil))
	if left, err := s.try(context.Background()); err != nil || left != 1 || !slices.Equal(started, []string{"A", "C"}) {
		t.Fatalf("%d wait, started %v, %v", left, started, err)
	}
	if v := testutil.ToFloat64(s.gauge.WithLabelValues("of-B")); v != 0 {
		t.Errorf("the metric of one that waits is %v", v)
	}
	m.known["B"] = true
	if left, err := s.try(context.Background()); err != nil || left != 0 || !slices.Equal(started, []string{"A", "C", "B"}) {
		t.Errorf("%d wait, started %v, %v", left, started, err)
	}
	if v := testutil.ToFloat64(s.gauge.WithLabelValues("of-B")); v != 1 {
		t.Errorf("the metric of one that started is %v", v)
	}
	if left, _ := s.try(context.Background()); left != 0 || len(started) != 3 {
		t.Error("one was started twice")
	}
}

func TestAFailedLookUpIsTriedAgain(t *testing.T) {
	var started []string
	m := &mapper{known: map[string]bool{"A": true}, err: errors.New("down")}
	s := newTestStarter(t, m, needing("A", &started, nil))
	if left, err := s.try(context.Background()); err != nil || left != 1 {
		t.Fatalf("%d wait, %v", left, err)
	}
	m.err = nil
	if err := s.Start(context.Background()); err != nil || len(started) != 1 {
		t.Errorf("started %v, %v", started, err)
	}
}

func TestAControllerThatCannotStartIsAnError(t *testing.T) {
	var started []string
	s := newTestStarter(t, &mapper{known: map[string]bool{"A": true}}, needing("A", &started, errors.New("no index")))
	if _, err := s.try(context.Background()); err == nil || err.Error() != "start controller of-A: no index" {
		t.Errorf("the error is %v", err)
	}
}

func TestWaitingEndsWithTheProgram(t *testing.T) {
	var started []string
	s := newTestStarter(t, &mapper{}, needing("A", &started, nil))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	stop()
	if err := <-done; err != nil || len(started) != 0 {
		t.Errorf("started %v, %v", started, err)
	}
}

func TestTheCacheHoldsOnlyWhatIsNeeded(t *testing.T) {
	o := options(Options{})
	if len(o.Cache.ByObject) != 4 {
		t.Errorf("%d kinds are filtered, want the four of RBAC", len(o.Cache.ByObject))
	}
	for kind, by := range o.Cache.ByObject {
		if by.Label == nil || by.Label.String() != "app.kubernetes.io/managed-by=ks-controller-manager" {
			t.Errorf("%T is filtered by %v", kind, by.Label)
		}
	}
	if len(o.Client.Cache.DisableFor) != 1 {
		t.Error("Secrets are cached")
	}
	if !o.LeaderElectionReleaseOnCancel || o.LeaderElectionID != "ks-controller-manager-leader-election" || o.LeaderElectionNamespace != "kubesphere-system" {
		t.Error("the lease is not what others expect")
	}
}
