package config

import "github.com/spf13/pflag"

// Flags are those of both servers that say what their configuration is.
type Flags struct{ file, kubeconfig string }

// Add adds them.
func (f *Flags) Add(fs *pflag.FlagSet) {
	fs.StringVar(&f.file, "config", "",
		"configuration `file`, or a folder that has kubesphere.yaml (default /etc/kubesphere, then the working folder)")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig `file` of the cluster (default: the cluster that this runs in, else ~/.kube/config)")
}

// Load reads the configuration that they say.
func (f *Flags) Load() (*Config, error) {
	c, err := Load(f.file)
	if err != nil {
		return nil, err
	}
	if f.kubeconfig != "" {
		c.Kubernetes.Kubeconfig = f.kubeconfig
	}
	return c, nil
}
