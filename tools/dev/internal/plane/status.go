package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// errNotRunning makes `dev status` exit non-zero after it has said why.
var errNotRunning = errors.New("the control plane is not running, or not as a whole")

// status prints what runs and whether it serves.
func status(ctx context.Context, l layout, out io.Writer) error {
	id, running := l.running()
	if !running {
		fmt.Fprintf(out, "no control plane runs in %s\n", l.dir)
		return errNotRunning
	}
	p, err := readPorts(l.ports())
	if err != nil {
		return err
	}
	clients, err := newClients(l, p)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-24s process %d, state in %s\n", "supervisor", id.PID, l.dir)
	fmt.Fprintf(out, "%-24s %s, kubeconfig %s\n", "server", p.server(), l.kubeconfig())
	var bad error
	i := instance{layout: l, ports: p}
	if i.real, err = readRealNode(l); err != nil {
		return err
	}
	if i.real != nil { // all else runs without it
		state := "ready"
		if err := l.realNodeReady(clients.kube)(ctx); err != nil {
			state = err.Error()
		}
		fmt.Fprintf(out, "%-24s %s\n", "real-node", state)
	}
	for _, c := range i.components(clients) {
		state := "ready"
		if err := c.Ready(ctx); err != nil {
			state, bad = err.Error(), errNotRunning
		}
		fmt.Fprintf(out, "%-24s %s\n", c.Name, state)
	}
	return bad
}
