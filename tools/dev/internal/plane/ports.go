package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// Ports are chosen below the range that Linux uses for outgoing connections (32768 and up), so that a stored one is seldom in use by
// chance at the next start, or before its component listens.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// ports are the loopback ports of one instance. They are stored, so that kubeconfigs stay valid over restarts.
type ports struct {
	APIServer         int `json:"apiserver"`
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	ControllerManager int `json:"controllerManager"`
	Scheduler         int `json:"scheduler"`
	Kubelet           int `json:"kubelet"`
	Kwok              int `json:"kwok"`
}

func (p *ports) all() []*int {
	return []*int{&p.APIServer, &p.Etcd, &p.EtcdPeer, &p.ControllerManager, &p.Scheduler, &p.Kubelet, &p.Kwok}
}

// choosePorts reads the ports stored in file, replaces those that are missing or in use by now, and stores the result. A fixed port
// for kube-apiserver (0: none) must be free. No other control plane gets them while this process runs, or until claims are closed.
func choosePorts(file string, fixed int) (p ports, claims portClaims, err error) {
	p, err = readPorts(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ports{}, nil, err
	}
	defer func() {
		if err != nil {
			claims.Close()
		}
	}()
	if fixed != 0 {
		p.APIServer = fixed
		if !claims.claim(fixed) {
			return ports{}, nil, fmt.Errorf("port %d is taken by another program on 127.0.0.1: stop that one or choose another port", fixed)
		}
	}
	for _, port := range p.all() {
		if fixed != 0 && port == &p.APIServer || *port != 0 && claims.claim(*port) {
			continue
		}
		if *port, err = claims.pick(); err != nil {
			return ports{}, nil, err
		}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return ports{}, nil, fmt.Errorf("encode the ports: %w", err)
	}
	return p, claims, pki.WriteFile(file, data, 0o600)
}

func readPorts(file string) (ports, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return ports{}, fmt.Errorf("read the remembered ports: %w", err)
	}
	var p ports
	if err := json.Unmarshal(data, &p); err != nil {
		return ports{}, fmt.Errorf("read the remembered ports (%s can be removed): %w", file, err)
	}
	return p, nil
}

// portClaims say to other control planes on this machine which ports are chosen: a component listens on its port only seconds later, and
// until then the port looks free. The claim of a port is a Unix socket in the abstract namespace, which is as wide as that of the ports,
// holds each name once, and forgets it when the process ends.
type portClaims []net.Listener

// claim tells whether the port is free, and not claimed by anybody; if so, it is claimed.
func (c *portClaims) claim(port int) bool {
	l, err := net.Listen("unix", fmt.Sprintf("@kapis.dev/dev/port/%d", port)) //nolint:noctx // does not wait
	if err != nil {
		return false
	}
	if !free(port) {
		_ = l.Close()
		return false
	}
	*c = append(*c, l)
	return true
}

func (c *portClaims) pick() (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // a port is no secret
		if c.claim(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d on 127.0.0.1", lowestPort, highestPort)
}

// Close gives the ports up.
func (c portClaims) Close() {
	for _, l := range c {
		_ = l.Close()
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port)) //nolint:noctx // does not wait
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
