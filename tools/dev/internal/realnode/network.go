package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// bridgeFilter is the sysctl that makes the packet filter see packets on a bridge.
const bridgeFilter = "bridge/bridge-nf-call-iptables"

// nodeLink is the node's end of the pair of interfaces.
const nodeLink = "eth0"

// run runs a program to its end; the error says what it printed.
func run(ctx context.Context, name string, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.Join(strings.Fields(said.String()), " "))
	}
	return nil
}

// addLink connects this machine with the network namespace of a process.
func (c Config) addLink(ctx context.Context, pid int) error {
	return errors.Join(
		run(ctx, "ip", "link", "add", c.link(), "type", "veth", "peer", "name", nodeLink, "netns", strconv.Itoa(pid)),
		run(ctx, "ip", "address", "add", c.HostIP()+"/24", "dev", c.link()),
		run(ctx, "ip", "link", "set", c.link(), "up"),
	)
}

// fence keeps packets to the node, while it has no link, from leaving the machine by its default route: kube-apiserver would mistake a
// server that answers there for the kubelet. Clean removes it.
func (c Config) fence(ctx context.Context) error {
	return run(ctx, "ip", append([]string{"route", "replace"}, c.fenceRoute()...)...)
}

func (c Config) removeFence(ctx context.Context) {
	_ = run(ctx, "ip", append([]string{"route", "delete"}, c.fenceRoute()...)...) // fails where there is none
}

// fenceRoute comes after the route of the link, by its metric.
func (c Config) fenceRoute() []string {
	return []string{"unreachable", c.podCIDR(), "metric", "9999"}
}

// removeLink removes the machine's end, and the node's with it.
func (c Config) removeLink(ctx context.Context) error {
	if _, err := net.InterfaceByName(c.link()); err != nil {
		return nil //nolint:nilerr // it has gone with its namespace
	}
	return retry(ctx, func() error {
		err := run(ctx, "ip", "link", "delete", c.link())
		if _, missing := net.InterfaceByName(c.link()); missing != nil {
			return nil //nolint:nilerr // it went with its namespace meanwhile
		}
		return err
	})
}

// setUpNetwork makes the bridge inside of the node's network namespace. There is no default route: pods reach each other,
// Services and this machine, and nothing else.
func (c Config) setUpNetwork(ctx context.Context) error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", c.link(), "type", "bridge"},
		{"address", "add", c.NodeIP() + "/24", "dev", c.link()},
		{"link", "set", nodeLink, "master", c.link()},
		{"link", "set", nodeLink, "type", "bridge_slave", "hairpin", "on"}, // a Service may lead this machine to a program of its own
		{"link", "set", nodeLink, "up"},
		{"link", "set", c.link(), "up"},
		{"route", "add", serviceCIDR, "dev", c.link()},
	} {
		if err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	for _, sysctl := range []string{"ipv4/ip_forward", bridgeFilter} {
		err := os.WriteFile("/proc/sys/net/"+sysctl, []byte("1\n"), 0o644)
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("set a sysctl of the node: %w", err)
		}
	}
	return nil
}

// forward accepts connections for kube-apiserver at the address that the node sees, and passes them on to loopback, where
// kube-apiserver listens.
func (c Config) forward(ctx context.Context) error {
	var config net.ListenConfig
	port := strconv.Itoa(c.APIServerPort)
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(c.HostIP(), port))
	if err != nil {
		return fmt.Errorf("listen for the node's connections to kube-apiserver: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(100 * time.Millisecond) // too many open files, for one, passes
				continue
			}
			go pass(ctx, conn, net.JoinHostPort("127.0.0.1", port))
		}
	}()
	return nil
}

// pass copies both ways until both ends have closed.
func pass(ctx context.Context, from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	to, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return // the client sees that the connection is closed, and tries again
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
