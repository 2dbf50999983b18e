// Package redisserver starts Redis servers for tests: single ones, some that sentinels watch, and Clusters. They are Debian's redis-server,
// listen on loopback, and end with the test.
package redisserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/port"
)

// Server is one redis-server. It keeps its data while it is stopped.
type Server struct {
	// Address is host:port.
	Address string

	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
}

// New starts a server with options as on the command line of redis-server, such as "--requirepass", "x". Options that name no port get one.
func New(t testing.TB, options ...string) *Server {
	t.Helper()
	return start(t, false, options)
}

func start(t testing.TB, sentinel bool, options []string) *Server {
	t.Helper()
	own := reserve(t)
	s := &Server{Address: net.JoinHostPort("127.0.0.1", own), t: t, dir: t.TempDir()}
	// Sentinels and nodes of a Cluster write their state into a file of their own.
	file := filepath.Join(s.dir, "redis.conf")
	var text strings.Builder
	for _, o := range options {
		text.WriteString(strings.ReplaceAll(o, "{port}", own) + "\n")
	}
	if !strings.Contains(text.String(), "tls-port") {
		text.WriteString("port " + own + "\n")
	}
	text.WriteString("bind 127.0.0.1\ndir " + s.dir + "\n")
	if !sentinel {
		text.WriteString("save \"\"\nappendonly yes\nappendfsync always\n")
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file}
	if sentinel {
		s.args = append(s.args, "--sentinel")
	}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

func reserve(t testing.TB) string {
	t.Helper()
	p, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(p)
}

// Start starts a server that was killed.
func (s *Server) Start() {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("install Debian's package redis-server (make test-servers does)")
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.CommandContext(context.Background(), path, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.await("it listens", func() error {
		dialer := net.Dialer{Timeout: time.Second}
		c, err := dialer.DialContext(context.Background(), "tcp", s.Address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// Kill ends a server without a shutdown.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it has ended
	_ = s.cmd.Wait()         // it was killed
	s.cmd = nil
}

func (s *Server) await(what string, ready func() error) {
	s.t.Helper()
	const patience = 2 * time.Minute // of failure
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := ready()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("redis-server %s: %s: not within %v: %v\n%s", s.Address, what, patience, err, log)
		}
	}
}

// Command sends a server a command by redis-cli, and returns the answer.
func (s *Server) Command(args ...string) (string, error) {
	_, port, _ := net.SplitHostPort(s.Address)
	out, err := exec.CommandContext(context.Background(), "redis-cli", append([]string{"-h", "127.0.0.1", "-p", port}, args...)...).
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// has returns a condition: the answer to a command contains a text.
func (s *Server) has(text string, args ...string) func() error {
	return func() error {
		out, err := s.Command(args...)
		if err == nil && !strings.Contains(out, text) {
			err = fmt.Errorf("no %s in %s", text, out)
		}
		return err
	}
}

// Watched are two servers, of which one follows the other, and a sentinel that promotes the follower when the master is gone.
type Watched struct {
	// Name is what the sentinel calls the master.
	Name                       string
	Master, Follower, Sentinel *Server
}

// NewWatched starts the servers.
func NewWatched(t testing.TB) *Watched {
	t.Helper()
	w := &Watched{Name: "sessions", Master: New(t)}
	host, port, _ := net.SplitHostPort(w.Master.Address)
	w.Follower = New(t, "replicaof "+host+" "+port)
	w.Follower.await("it follows", w.Follower.has("master_link_status:up", "info", "replication"))
	w.Sentinel = start(t, true, []string{
		"sentinel monitor " + w.Name + " " + host + " " + port + " 1",
		"sentinel down-after-milliseconds " + w.Name + " 2000",
		"sentinel failover-timeout " + w.Name + " 10000",
	})
	w.Sentinel.await("it knows the follower", w.Sentinel.has("slaves=1", "info", "sentinel"))
	return w
}

// NewCluster starts a Cluster of three masters with a follower each, and returns its nodes.
func NewCluster(t testing.TB) []*Server {
	t.Helper()
	var nodes []*Server
	create := []string{"--cluster", "create"}
	for range 6 {
		n := New(t, "cluster-enabled yes", "cluster-port "+reserve(t), "cluster-config-file nodes.conf", "cluster-node-timeout 2000")
		nodes = append(nodes, n)
		create = append(create, n.Address)
	}
	if out, err := nodes[0].Command(append(create, "--cluster-replicas", "1", "--cluster-yes")...); err != nil {
		t.Fatalf("make a Cluster: %v\n%s", err, out)
	}
	for _, n := range nodes {
		n.await("the Cluster is there", n.has("cluster_state:ok", "cluster", "info"))
	}
	for _, n := range nodes {
		if n.Role() == "slave" {
			n.await("it follows", n.has("master_link_status:up", "info", "replication"))
		}
	}
	return nodes
}

// Role returns master or slave, as Redis calls them.
func (s *Server) Role() string {
	out, err := s.Command("role")
	if err != nil {
		return ""
	}
	role, _, _ := strings.Cut(out, "\n")
	return role
}

// Holders returns the node of a Cluster that has a key, and the one that follows it.
func Holders(t testing.TB, nodes []*Server, key string) (master, follower *Server) {
	t.Helper()
	for _, n := range nodes {
		// A node that has the key answers it, and others say where it is.
		if n.Role() != "master" {
			continue
		}
		if out, err := n.Command("get", key); err == nil && !strings.HasPrefix(out, "MOVED") {
			master = n
		}
	}
	if master == nil {
		t.Fatalf("no node has %s", key)
	}
	_, port, _ := net.SplitHostPort(master.Address)
	for _, n := range nodes {
		if out, err := n.Command("role"); err == nil && n.Role() == "slave" && strings.Contains(out, "\n"+port+"\n") {
			return master, n
		}
	}
	t.Fatalf("nobody follows %s", master.Address)
	return nil, nil
}

// AwaitReplica waits until a follower has all data of its master.
func (s *Server) AwaitReplica() {
	s.t.Helper()
	out, err := s.Command("role")
	if err != nil {
		s.t.Fatal(err)
	}
	words := strings.Fields(out) // slave, host, port, state, offset
	if len(words) != 5 || words[0] != "slave" {
		s.t.Fatalf("%s follows nobody: %s", s.Address, out)
	}
	master := &Server{Address: net.JoinHostPort(words[1], words[2]), t: s.t, dir: s.dir}
	at, err := master.Command("role")
	if err != nil {
		s.t.Fatal(err)
	}
	wants := strings.Fields(at)[1]
	want, err := strconv.ParseInt(wants, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	s.await("it has what its master has", func() error {
		out, err := s.Command("role")
		if err != nil {
			return err
		}
		words := strings.Fields(out)
		if has, err := strconv.ParseInt(words[len(words)-1], 10, 64); err != nil || has < want {
			return fmt.Errorf("%s of %d", words[len(words)-1], want)
		}
		return nil
	})
}
