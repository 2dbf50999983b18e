package peer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

const (
	// Path is where replicas dial each other.
	Path = "/fleet/replicas"
	// dialTimeout bounds an attempt to reach a replica.
	dialTimeout = 5 * time.Second
)

// redial is how other replicas are dialled.
var redial = link.Redial{Least: 200 * time.Millisecond, Most: 5 * time.Second, Jitter: true}

// Options are what a Peers works with.
type Options struct {
	Leases Leases
	// Identity is that of the hub, and Members are those that this replica knows.
	Identity link.Identity
	Members  *cluster.Members
	// Drain ends what other replicas send here when it is done: what runs may end.
	Drain context.Context
	Now   func() time.Time
}

// Peers are the other replicas of this hub.
type Peers struct {
	Options
	// ID names this replica, as long as it runs.
	ID string

	server *server
	client *http.Client

	mu sync.Mutex
	// others are those that are there, connected those whose links are known, and asked says that both are known.
	others    map[string]string
	connected map[string]bool
	asked     bool
}

// New returns the Peers of a replica.
func New(o Options) *Peers {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // it never fails
	p := &Peers{Options: o, ID: hex.EncodeToString(id), connected: map[string]bool{}}
	p.server = newServer(o, p.ID)
	// Who answers proves itself within the link, so the outer connection is plain, or its certificate says nothing.
	t := &http.Transport{TLSClientConfig: unverified(), TLSHandshakeTimeout: dialTimeout, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(true) // WebSockets
	p.client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("a replica redirects, which it does not")
	}}
	return p
}

// Count returns how many replicas there are, with this one.
func (p *Peers) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.others) + 1
}

// Known reports whether this replica knows the links of all the others: without that, one to which nobody is linked here may be linked
// elsewhere.
func (p *Peers) Known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.others {
		if !p.connected[id] {
			return false
		}
	}
	return p.asked
}

// ServeHTTP makes a connection of another replica's request.
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.server.ServeHTTP(w, r) }

// Run connects to the other replicas until ctx ends. Address is where they reach this one.
func (p *Peers) Run(ctx context.Context, address string) {
	r := &registry{leases: p.Leases, id: p.ID, now: p.Now}
	running := map[string]context.CancelFunc{}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		_, _ = r.register(last, "") // others remove it, too
	}()
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for told := ""; ; {
		others, err := r.register(ctx, address)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != told:
			told = err.Error()
			klog.ErrorS(err, "The replicas of this hub do not know each other; apply config/fleet/hub where the Lease is missing",
				"address", address)
		case err == nil:
			told = ""
			p.follow(ctx, others, running)
		}
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			p.set(nil) // there is nobody to know
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Peers) set(others map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others, p.asked = others, true
}

// follow connects to the replicas that are there, and to no other one.
func (p *Peers) follow(ctx context.Context, others map[string]string, running map[string]context.CancelFunc) {
	p.set(others)
	for id, end := range running {
		if others[id] == "" {
			end()
			delete(running, id)
		}
	}
	for id, address := range others {
		if running[id] == nil {
			life, end := context.WithCancel(ctx)
			running[id] = end
			go p.keep(life, id, address)
		}
	}
}

// keep keeps a connection to a replica.
func (p *Peers) keep(ctx context.Context, id, address string) {
	redial.Keep(ctx, func() error { return p.connect(ctx, id, address) }, func(err error, news bool) {
		if news {
			klog.ErrorS(err, "Another replica of this hub is not reached; it is tried again", "replica", id, "address", address)
		}
	})
}

// connect connects to a replica, and follows what is linked to it until that ends.
func (p *Peers) connect(ctx context.Context, id, address string) error {
	conn, err := p.dial(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	l, err := link.OpenPeer(ctx, websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary), p.Identity)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	life, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-l.Ended():
			end()
		case <-life.Done():
		}
	}()
	err = p.listen(life, id, l)
	p.connection(id, false)
	p.Members.SetElsewhere(id, nil)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	l.Finish(finish)
	return err
}

func (p *Peers) connection(id string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connected[id] = is; !is {
		delete(p.connected, id)
	}
}

// listen asks a replica what is linked to it, again and again.
func (p *Peers) listen(ctx context.Context, id string, l *link.Link) error {
	e := &cluster.Elsewhere{}
	for after := uint64(0); ; {
		said, err := ask(ctx, l, after, e.Members)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it has ended, as it is to
		}
		if err != nil {
			return fmt.Errorf("ask another replica what is linked to it: %w", err)
		}
		if said.Replica != id {
			return errors.New("another replica answers at the address")
		}
		if said.Version != after || said.Version == 0 {
			e = &cluster.Elsewhere{Send: sender(l), Members: merged(e.Members, said.Members)} //nolint:bodyclose // who sends closes it
			p.Members.SetElsewhere(id, e)
			p.connection(id, true)
		}
		after = said.Version
	}
}

// dial dials a replica: at most one of its ports is plain.
func (p *Peers) dial(ctx context.Context, address string) (conn *websocket.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	for _, scheme := range []string{"http", "https"} {
		o := &websocket.DialOptions{HTTPClient: p.client}
		conn, _, err = websocket.Dial(ctx, scheme+"://"+address+Path, o) //nolint:bodyclose // Dial has read it
		if err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("dial another replica: %w", err)
}
