package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// crdPoll is the interval at which missing custom resources are looked up.
const crdPoll = 5 * time.Second

// crdGate adds controllers to a manager: at once if the cluster has all kinds that they need, and otherwise as soon as
// it has. A controller that waits does not delay the others.
type crdGate struct {
	mgr    manager.Manager
	mapper meta.RESTMapper
	poll   time.Duration
	gauge  *prometheus.GaugeVec

	waiting []controller
	told    map[string]string // by the name of a waiting controller: the reason that was logged
}

// newCRDGate registers the metric ks_controller_started{controller}, which is 0 while one waits.
func newCRDGate(mgr manager.Manager, registry prometheus.Registerer, list []controller) (*crdGate, error) {
	s := &crdGate{mgr: mgr, mapper: mgr.GetRESTMapper(), poll: crdPoll, waiting: list, told: map[string]string{}}
	s.gauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ks_controller_started",
		Help: "1 for a controller that was started, 0 for one that waits for a custom resource definition.",
	}, []string{"controller"})
	if err := registry.Register(s.gauge); err != nil {
		return nil, fmt.Errorf("register the metric of started controllers: %w", err)
	}
	return s, nil
}

// Start looks up missing kinds until every controller has started.
func (s *crdGate) Start(ctx context.Context) error {
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	for {
		left, err := s.try(ctx)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// NeedLeaderElection returns false, so that the caches of a stand-by fill too.
func (s *crdGate) NeedLeaderElection() bool { return false }

// try starts the controllers that can start, and returns how many wait.
func (s *crdGate) try(ctx context.Context) (left int, err error) {
	var waiting []controller
	for _, c := range s.waiting {
		if why := s.lacks(c); why != nil {
			if s.told[c.name] != why.Error() {
				s.told[c.name] = why.Error()
				klog.InfoS("A controller waits, the others work", "controller", c.name, "for", why)
			}
			s.gauge.WithLabelValues(c.name).Set(0)
			waiting = append(waiting, c)
			continue
		}
		if err := c.setup(ctx, s.mgr); err != nil {
			return 0, fmt.Errorf("start controller %s: %w", c.name, err)
		}
		if _, waited := s.told[c.name]; waited {
			klog.InfoS("A controller that waited has started", "controller", c.name)
		}
		s.gauge.WithLabelValues(c.name).Set(1)
	}
	s.waiting = waiting
	return len(waiting), nil
}

// lacks returns why the controller can't work: the error names a kind that the cluster does not have, or that can't be looked up now.
func (s *crdGate) lacks(c controller) error {
	for _, gvk := range c.needs {
		_, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the custom resource %s, which the cluster does not have", gvk.GroupKind())
		}
		if err != nil {
			return fmt.Errorf("look up the custom resource %s: %w", gvk.GroupKind(), err)
		}
	}
	return nil
}

// synced is the readiness check: it fails until the caches are filled, or readyWait has passed. A kind that can't be listed takes only
// the webhooks along that read it.
func (s *crdGate) synced(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	all := s.mgr.GetCache().WaitForCacheSync
	if c, ok := s.mgr.GetCache().(*boundedCache); ok {
		all = c.ready
	}
	if !all(ctx) {
		return errors.New("the caches are not filled yet")
	}
	return nil
}
