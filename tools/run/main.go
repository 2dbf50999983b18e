// Command run is what `make run` executes after building: it starts the development control plane (or uses an existing
// cluster), installs what the product needs there, starts ks-apiserver and ks-controller-manager, says how to log in, and
// stays until Ctrl-C, when it stops what it started. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// options are the flags. Paths are absolute.
type options struct {
	// kubeconfig is a file of an existing cluster; "" starts the control plane.
	kubeconfig string
	// node is "real" for a control plane with a real node, else "".
	node string
	// dir is where state is kept, bin where the programs are, repo the checkout.
	dir, bin, repo string
	// port and tlsPort are the loopback ports of ks-apiserver.
	port, tlsPort int
	// adminPassword is the password of the user admin; "" makes one at the first start.
	adminPassword string
	// verbosity is the log level of both programs.
	verbosity int
	// restart is the name of a program that is started again where it was killed, "" for none: the end of any other one ends all.
	restart string
	// members is how many clusters more are started, and joined to this one.
	members int
	// fleet says that this one is a hub, also of members that others start.
	fleet bool
	// member says that this one is a member of a fleet, and hub where it joins; without an address a hub invites it.
	member bool
	hub    membership
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends this process at once, and the kernel ends what it has started.
	context.AfterFunc(ctx, stop)
	o, err := parse(os.Args[1:], os.Getenv("ADMIN_PASSWORD"))
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = (&session{options: o, out: os.Stdout}).run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func parse(args []string, adminPassword string) (options, error) {
	o := options{}
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` of an existing cluster; none starts a control plane")
	f.StringVar(&o.node, "node", "", "real: the control plane has one node with real containers too")
	f.StringVar(&o.dir, "dir", ".dev", "`folder` of the state")
	f.StringVar(&o.bin, "bin", "bin", "`folder` of the programs")
	f.StringVar(&o.repo, "repo", ".", "`folder` of the checkout")
	f.IntVar(&o.port, "port", 9090, "HTTP port of ks-apiserver on 127.0.0.1")
	f.IntVar(&o.tlsPort, "tls-port", 9443, "HTTPS port of ks-apiserver on 127.0.0.1")
	f.IntVar(&o.verbosity, "v", 0, "log level of ks-apiserver and ks-controller-manager")
	f.IntVar(&o.members, "members", 0, "how many clusters more to start, and to join to this one: 0 to 2")
	f.BoolVar(&o.fleet, "fleet", false, "be the hub of a fleet, also without --members")
	f.BoolVar(&o.member, "member", false, "be a member of a fleet, which a hub invites or --hub joins")
	f.StringVar(&o.hub.url, "hub", "", "https `address` of the hub that this cluster joins as a member")
	f.StringVar(&o.hub.ca, "hub-ca", "", "`file` with the authority of the hub's certificate")
	f.StringVar(&o.hub.token, "join-token", "", "`file` with the join token")
	f.StringVar(&o.restart, "restart", "", "`name` of a program that is started again where it is killed (SIGKILL), for tests")
	f.StringVar(&o.adminPassword, "admin-password", adminPassword,
		"password of the user admin (default $ADMIN_PASSWORD, which ps does not show; else one is made)")
	f.SetOutput(io.Discard) // an error is one line
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(os.Stdout)
			f.Usage()
		}
		return options{}, err
	}
	if f.NArg() > 0 {
		return options{}, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if o.port == o.tlsPort {
		return options{}, fmt.Errorf("port %d cannot serve both HTTP and HTTPS: choose another --port or --tls-port", o.port)
	}
	if o.node != "" && o.node != "real" {
		return options{}, fmt.Errorf("--node %s is not known: --node real, or none", o.node)
	}
	if o.members < 0 || o.members > len(memberNames) || o.members > 0 && (o.kubeconfig != "" || o.member) {
		return options{}, fmt.Errorf("--members %d: 0 to %d, of the development control plane", o.members, len(memberNames))
	}
	o.fleet = o.fleet || o.members > 0
	if o.adminPassword != "" {
		if err := checkPassword(o.adminPassword); err != nil {
			return options{}, err
		}
	}
	for _, path := range []*string{&o.kubeconfig, &o.dir, &o.bin, &o.repo, &o.hub.ca, &o.hub.token} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return options{}, fmt.Errorf("find %q: %w", *path, err)
		}
		*path = abs
	}
	return o, nil
}

func (o options) path(parts ...string) string {
	return filepath.Join(append([]string{o.dir}, parts...)...)
}

func (o options) program(name string) string { return filepath.Join(o.bin, name) }
func (o options) log(name string) string     { return o.path("log", name+".log") }
func (o options) url() string                { return fmt.Sprintf("http://127.0.0.1:%d", o.port) }
func (o options) tlsURL() string             { return fmt.Sprintf("https://127.0.0.1:%d", o.tlsPort) }

// issuer is what tokens name as their issuer. kube-apiserver takes https issuers only, and browsers keep what they know of
// localhost apart from 127.0.0.1.
func (o options) issuer() string { return fmt.Sprintf("https://localhost:%d", o.tlsPort) }

// session is one run from start to end.
type session struct {
	options
	out io.Writer

	spawner  *spawner
	children []*child // in the order of their start
	// ended takes the first child that ends by itself.
	ended chan *child
	// consoleSecret is that of the console's OAuth client.
	consoleSecret string
}

// say prints a line for the user.
func (s *session) say(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *session) run(ctx context.Context) (err error) {
	for _, port := range []struct {
		number   int
		variable string
	}{{s.port, "PORT"}, {s.tlsPort, "TLS_PORT"}} {
		if err := checkPort(port.number, port.variable); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.path("log"), 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	s.spawner, s.ended = newSpawner(), make(chan *child, 8)
	defer func() { err = errors.Join(err, s.stop()) }()

	// Until everything is started, the end of any child ends all.
	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failed := make(chan error, 1)
	go func() {
		select {
		case c := <-s.ended:
			err := c.failure()
			cancel(err)
			failed <- err
		case <-ctx.Done():
		}
	}()
	login, err := s.start(starting)
	switch {
	case ctx.Err() != nil:
		return nil // interrupted
	case starting.Err() != nil:
		return context.Cause(starting)
	case err != nil:
		return err
	}
	s.say("READY %s %s", s.url(), s.tlsURL())
	if !s.member {
		go s.keepLoggedIn(ctx, login)
	}
	select {
	case <-ctx.Done():
		s.say("stopping")
		return nil
	case err := <-failed:
		return err
	}
}

// start brings everything up and returns the admin's login.
func (s *session) start(ctx context.Context) (login, error) {
	if s.kubeconfig == "" {
		if err := s.startControlPlane(ctx); err != nil {
			return login{}, err
		}
	} else {
		s.say("using the cluster of %s; both programs act with its rights", s.kubeconfig)
		if s.node != "" {
			s.say("no real node: that is of the development control plane, and this cluster has nodes of its own")
		}
	}
	if err := s.install(ctx); err != nil {
		return login{}, err
	}
	if s.member {
		return login{}, s.startMember(ctx)
	}
	password, fresh, err := s.ensurePassword()
	if err != nil {
		return login{}, err
	}
	if err := s.writeConfiguration(ctx); err != nil {
		return login{}, err
	}
	if err := s.startProduct(ctx); err != nil {
		return login{}, err
	}
	l, err := s.awaitLogin(ctx, password)
	if err != nil {
		return login{}, err
	}
	if err := s.writeKubeconfig(l); err != nil {
		return login{}, err
	}
	if err := s.startMembers(ctx, l); err != nil {
		return login{}, err
	}
	s.explain(password, fresh)
	return l, nil
}

func (s *session) explain(password string, fresh bool) {
	shown := "the one in " + s.path("admin-password")
	if fresh {
		shown = password
	}
	s.say(`
log in as admin, password: %s

  TOKEN=$(curl -s %s/oauth/token -d grant_type=password -d client_id=kubesphere -d client_secret=%s \
    -d username=admin --data-urlencode password@%s | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
  curl -H "Authorization: Bearer $TOKEN" '%s/kapis/resources.kubesphere.io/v1alpha3/namespaces?limit=5'
  %s --kubeconfig %s get namespaces
`, shown, s.url(), s.shownConsoleSecret(), s.path("admin-password"), s.url(), s.program("kubectl"), s.path("ks.kubeconfig"))
}
