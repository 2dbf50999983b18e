package plane

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

// NewCommand makes the command line of the control plane.
func NewCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "dev",
		Short: "A real Kubernetes control plane on this machine, for development and tests",
		Long: "dev runs etcd, kube-apiserver, kube-controller-manager, kube-scheduler and simulated nodes on loopback.\n" +
			"Everything it knows is in one folder; several folders are several control planes.\n" +
			"Commands that are run in simulated containers (kubectl exec) run on this machine as the user who started it.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := root.PersistentFlags().String("dir", ".dev", "folder of the control plane's state")
	root.AddCommand(upCommand(dir), downCommand(dir), statusCommand(dir), kubeconfigCommand(dir), certCommand(dir), checkNodeCommand(),
		snapshotCommand(dir), restoreCommand(dir))
	return root
}

func upCommand(dir *string) *cobra.Command {
	var background, foreground bool
	var port, progress int
	var node string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the control plane, stay until Ctrl-C (or, with --detach, until it is ready)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if node != "" && node != nodeReal {
				return fmt.Errorf("--node %s is not known: --node %s, or none for simulated nodes alone", node, nodeReal)
			}
			o := upOptions{port: port, real: node == nodeReal}
			l, err := newLayout(*dir)
			switch {
			case err != nil:
				return err
			case background:
				return detach(cmd.Context(), l, o, cmd.OutOrStdout())
			case progress != 0:
				return upTelling(cmd.Context(), l, o, progress, cmd.OutOrStdout())
			default:
				return up(cmd.Context(), l, o, cmd.OutOrStdout())
			}
		},
	}
	cmd.Flags().BoolVar(&background, "detach", false, "run in the background, return when it is ready")
	cmd.Flags().BoolVar(&foreground, "foreground", true, "stay in the foreground")
	cmd.MarkFlagsMutuallyExclusive("detach", "foreground")
	cmd.Flags().IntVar(&port, "port", 0, "port of kube-apiserver; 0 picks a free one and keeps it")
	cmd.Flags().StringVar(&node, "node", "", "real: one node with real containers too, where this machine can (root)")
	cmd.Flags().IntVar(&progress, "progress-fd", 0, "file descriptor that takes progress up to the ready line")
	_ = cmd.Flags().MarkHidden("progress-fd") // fails for unknown names only
	return cmd
}

func downCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the control plane and wait until it is gone",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*dir)
			if err != nil {
				return err
			}
			return down(cmd.Context(), l, cmd.OutOrStdout())
		},
	}
}

func statusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what runs and whether it serves; fails unless all of it does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*dir)
			if err != nil {
				return err
			}
			return status(cmd.Context(), l, cmd.OutOrStdout())
		},
	}
}

func checkNodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check-node",
		Short: "Say why no real node can run here; fails unless one can",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return realnode.Check(cmd.Context()) },
	}
}

func kubeconfigCommand(dir *string) *cobra.Command {
	var user, out string
	var groups []string
	cmd := &cobra.Command{
		Use:   "kubeconfig --user NAME [--group GROUP]... --out FILE",
		Short: "Write a kubeconfig with a client certificate for a user",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := newLayout(*dir)
			if err != nil {
				return err
			}
			p, err := readPorts(l.ports())
			if err != nil {
				return fmt.Errorf("%w (has `dev up --dir %s` ever run?)", err, l.dir)
			}
			authority, pair, err := issue(l, pki.Request{CommonName: user, Groups: groups}, time.Now())
			if err != nil {
				return err
			}
			return writeKubeconfig(out, kubeconfigValues{Server: p.server(), User: user, CA: authority.Cert, Pair: pair})
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "name of the user")
	cmd.Flags().StringArrayVar(&groups, "group", nil, "group of the user; may be given several times")
	cmd.Flags().StringVar(&out, "out", "", "file to write")
	require(cmd, "user", "out")
	return cmd
}

func certCommand(dir *string) *cobra.Command {
	var names []string
	var certOut, keyOut, caOut string
	cmd := &cobra.Command{
		Use:   "cert --name NAME... --out-cert FILE --out-key FILE --out-ca FILE",
		Short: "Write a serving certificate of the development authority",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := newLayout(*dir)
			if err != nil {
				return err
			}
			authority, pair, err := issue(l, pki.Request{CommonName: names[0], Names: names}, time.Now())
			if err != nil {
				return err
			}
			if err := pair.Write(certOut, keyOut); err != nil {
				return err
			}
			return pki.WriteFile(caOut, authority.Cert, 0o644)
		},
	}
	cmd.Flags().StringArrayVar(&names, "name", nil, "host name or address of the server; may be given several times")
	cmd.Flags().StringVar(&certOut, "out-cert", "", "file for the certificate")
	cmd.Flags().StringVar(&keyOut, "out-key", "", "file for its private key")
	cmd.Flags().StringVar(&caOut, "out-ca", "", "file for the authority's certificate, for clients")
	require(cmd, "name", "out-cert", "out-key", "out-ca")
	return cmd
}

func require(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		_ = cmd.MarkFlagRequired(f) // fails for unknown names only
	}
}
