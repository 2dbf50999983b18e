package extensionsync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

const (
	// lookEvery is how often the plans are looked at, which costs nothing while none has changed. A member is asked when one has, every
	// busyEvery while something is done there, every idleEvery otherwise, and retryEvery after a failure. What it refuses is sent again
	// after retryEvery, and then less and less often, every retryMost at last.
	lookEvery  = time.Second
	busyEvery  = 2 * time.Second
	idleEvery  = 20 * time.Second
	retryEvery = 15 * time.Second
	retryMost  = 5 * time.Minute
	// askTimeout bounds one request to a member, and chartTimeout one with a chart.
	askTimeout   = 20 * time.Second
	chartTimeout = 2 * time.Minute
	// maxAnswer bounds an answer of a member, in bytes: it is not trusted.
	maxAnswer = 8 << 20
)

// Snapshots returns the objects of a kind. store.Store is one.
type Snapshots interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Charts reads the packed chart of a version. source.Loader does.
type Charts interface {
	Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error)
}

// Hub tells members which agents they are to have, and writes into the plans what the members say.
type Hub struct {
	Caches Snapshots
	Charts Charts
	// Plans writes InstallPlans.
	Plans dynamic.ResourceInterface
	// UID is that of this cluster's kube-system.
	UID string
	// Current returns the member of a UID as it is now, nil for none.
	Current func(uid string) *cluster.Member
	Now     func() time.Time

	mu     sync.Mutex
	judged map[string]*judged
	sent   map[string]*sharedChart
}

// round is what is known of one member while it is linked.
type round struct {
	*Hub
	uid string
	// remove are the agents that the member is told to remove with the next request.
	remove []string
	// refused are why agents could not be sent, until they are tried again.
	refused map[string]refused
}

// refused is why the agent with a hash could not be sent, and when it is tried again.
type refused struct {
	hash, reason string
	again        time.Time
	wait         time.Duration
}

// Follow keeps the agents of a member as they are to be, until ctx ends. It is called when the first link of a member is open.
func (h *Hub) Follow(ctx context.Context, m *cluster.Member) {
	r := &round{Hub: h, uid: m.UID, refused: map[string]refused{}}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var next time.Time
	for seen, told := "", ""; ; {
		if is := h.version(ctx, r.uid); is != seen || !h.Now().Before(next) {
			busy, err := r.run(ctx)
			if ctx.Err() != nil {
				return
			}
			wait, text := idleEvery, ""
			switch {
			case err != nil:
				wait, text = retryEvery, err.Error()
			case busy:
				wait = busyEvery
			}
			if text != "" && text != told {
				klog.ErrorS(err, "A member cluster is not told of extensions; it is tried again", "cluster", m.Name)
			}
			seen, told, next = is, text, h.Now().Add(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// version identifies what the agents of a member depend on.
func (h *Hub) version(ctx context.Context, uid string) string {
	text := ""
	for _, k := range []schema.GroupVersionResource{plansKind, versionsKind} {
		if snap, err := h.Caches.Snapshot(ctx, k); err == nil {
			text += fmt.Sprint(snap.Generation(), " ")
		}
	}
	if m := h.Current(uid); m != nil {
		text += fmt.Sprint(m.Labels) // of a map in the order of its keys
	}
	return text
}

// run brings a member up to date, as far as that is possible now, and reports whether something is being done there.
func (r *round) run(ctx context.Context) (busy bool, err error) {
	m := r.Current(r.uid)
	if m == nil || m.Leaving {
		return false, nil
	}
	plans, err := r.plans(ctx)
	if err != nil || len(plans) == 0 && len(r.remove) == 0 && !r.recorded(ctx, m) {
		return false, err
	}
	report := &Report{}
	if err := r.ask(ctx, m, PathState, &State{Hub: r.UID, Remove: r.remove}, report); err != nil {
		return false, err
	}
	r.remove = nil
	var failed []error
	for _, p := range plans {
		has, there := report.Agents[p.Name]
		want, hold := r.wanted(ctx, m, p)
		var trouble string
		switch {
		case hold || want == nil && !there:
		case want == nil:
			r.remove = append(r.remove, p.Name)
		case there && has.Leaving:
			trouble = "the former one is still being removed"
		default:
			trouble = r.bring(ctx, m, want, has, slices.Contains(report.Charts, want.Version.Digest))
		}
		if there && !isSettled(&has) || len(r.remove) > 0 || trouble != "" {
			busy = true
		}
		next := entryOf(there, &has, want != nil || hold && p.PlacedOn(m.Name, m.Labels), trouble)
		failed = append(failed, r.note(ctx, p, m.Name, next))
	}
	for _, name := range r.gone(ctx, m) {
		planned := slices.ContainsFunc(plans, func(p *v1alpha1.InstallPlan) bool { return p.Name == name })
		if _, there := report.Agents[name]; there && !planned {
			r.remove, busy = append(r.remove, name), true
		}
	}
	return busy, errors.Join(failed...)
}

// bring sends an agent that a member has not got, and returns why that was not possible.
func (r *round) bring(ctx context.Context, m *cluster.Member, want *Agent, has Installed, hasChart bool) (trouble string) {
	lost := lacksChart(&has.Status)
	if has.Hash == want.Hash && !lost {
		delete(r.refused, want.Extension)
		return ""
	}
	if was, ok := r.refused[want.Extension]; ok && was.hash == want.Hash && r.Now().Before(was.again) {
		return was.reason
	}
	err := r.send(ctx, m, want, hasChart && !lost)
	if err == nil {
		delete(r.refused, want.Extension)
		if !lost {
			return ""
		}
		err = errors.New("the chart was lost in the cluster, and is sent again")
	}
	wait := retryEvery
	if was := r.refused[want.Extension]; was.hash == want.Hash {
		wait = min(2*was.wait, retryMost)
	}
	r.refused[want.Extension] = refused{want.Hash, clip(err.Error(), maxMessage), r.Now().Add(wait), wait}
	return r.refused[want.Extension].reason
}

func (r *round) send(ctx context.Context, m *cluster.Member, want *Agent, hasChart bool) error {
	if !hasChart {
		raw, done, err := r.chart(ctx, want)
		if err != nil {
			return err
		}
		defer done()
		query := url.Values{"hub": {r.UID}, "digest": {want.Version.Digest}}
		if err := r.post(ctx, m, PathChart+"?"+query.Encode(), raw, chartTimeout, nil); err != nil {
			return err
		}
	}
	return r.ask(ctx, m, PathAgent, want, nil)
}

// ask sends a request to a member, and reads its answer.
func (r *round) ask(ctx context.Context, m *cluster.Member, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode what a member cluster is asked: %w", err)
	}
	return r.post(ctx, m, path, raw, askTimeout, into)
}

func (r *round) post(ctx context.Context, m *cluster.Member, path string, body []byte, within time.Duration, into any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://member"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := m.RoundTripHere(req)
	if err != nil {
		return fmt.Errorf("ask the member cluster %q for %s: %w", m.Name, req.URL.Path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the member cluster %q for %s: %w", m.Name, req.URL.Path, err)
	}
	if resp.StatusCode != http.StatusOK {
		said := struct{ Message string }{}
		if json.Unmarshal(answer, &said) != nil || said.Message == "" {
			said.Message = "it runs an older version, which has no extensions"
		}
		return fmt.Errorf("the member cluster %q refuses it (%d): %.500s", m.Name, resp.StatusCode, said.Message)
	}
	if into == nil {
		return nil
	}
	if json.Unmarshal(answer, into) != nil {
		return fmt.Errorf("the answer of the member cluster %q can't be read", m.Name)
	}
	return nil
}
