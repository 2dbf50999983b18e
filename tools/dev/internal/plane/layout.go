// Package plane runs a control plane in one folder: its files, ports and certificates, the order in which it starts, and its commands.
package plane

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout names the files of one instance; the folder is absolute.
type layout struct {
	dir string
}

func newLayout(dir string) (layout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, fmt.Errorf("find the state folder %q: %w", dir, err)
	}
	return layout{abs}, nil
}

func (l layout) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

func (l layout) kubeconfig() string      { return l.path("kubeconfig") }
func (l layout) pki(name string) string  { return l.path("pki", name) }
func (l layout) conf(name string) string { return l.path("conf", name) }
func (l layout) log(name string) string  { return l.path("log", name+".log") }

// etcd is where the cluster's data is.
func (l layout) etcd() string { return l.path("etcd") }

// pods is the working folder of commands that are run in simulated containers.
func (l layout) pods() string { return l.path("pods") }

// mark is in the environment of everything that this instance starts, see process.KillMarked.
func (l layout) mark() string { return "KS_DEV_INSTANCE=" + l.dir }

func (l layout) lock() string       { return l.path("run", "lock") }
func (l layout) supervisor() string { return l.path("run", "supervisor.json") }
func (l layout) ports() string      { return l.path("run", "ports.json") }

// create makes the folders, readable by their owner only: private keys and the cluster's secrets are in them.
func (l layout) create() error {
	for _, dir := range []string{"", "pki", "conf", "log", "run", "pods", "etcd"} {
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			return fmt.Errorf("make the state folder: %w", err)
		}
	}
	return nil
}
