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
// chance at the next start.
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
// for kube-apiserver (0: none) must be free.
func choosePorts(file string, fixed int) (ports, error) {
	p, err := readPorts(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ports{}, err
	}
	if fixed != 0 {
		p.APIServer = fixed
		if !free(fixed) {
			return ports{}, fmt.Errorf("port %d is taken by another program on 127.0.0.1: stop that one or choose another port", fixed)
		}
	}
	used := map[int]bool{}
	for _, port := range p.all() {
		if *port == 0 || used[*port] || !free(*port) {
			if *port, err = pick(used); err != nil {
				return ports{}, err
			}
		}
		used[*port] = true
	}
	data, err := json.Marshal(p)
	if err != nil {
		return ports{}, fmt.Errorf("encode the ports: %w", err)
	}
	return p, pki.WriteFile(file, data, 0o600)
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

func pick(used map[int]bool) (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // a port is no secret
		if !used[port] && free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d on 127.0.0.1", lowestPort, highestPort)
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
