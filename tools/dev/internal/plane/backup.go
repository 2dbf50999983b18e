package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kapis.dev/ks-apiserver/tools/dev/internal/process"
)

// restored is the folder with the data of a snapshot that etcd has when it starts next; replaced is what it had before.
func (l layout) restored() string { return l.path("etcd-restored") }
func (l layout) replaced() string { return l.path("etcd-replaced") }

func snapshotCommand(dir *string) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "snapshot --to FILE",
		Short: "Save a snapshot of etcd, as `etcdctl snapshot save` does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*dir)
			if err != nil {
				return err
			}
			return snapshot(cmd.Context(), l, to, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "file to write; one that exists is replaced")
	require(cmd, "to")
	return cmd
}

func restoreCommand(dir *string) *cobra.Command {
	var from string
	var bump int64
	cmd := &cobra.Command{
		Use:   "restore --from FILE",
		Short: "Put the control plane back to a snapshot, as `etcdutl snapshot restore` and a restart of all components do",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*dir)
			if err != nil {
				return err
			}
			return restore(cmd.Context(), l, from, bump, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "file of `dev snapshot`")
	cmd.Flags().Int64Var(&bump, "bump-revision", 0, "add this to etcd's revision, and mark all before it as compacted; 0 lets the revision go back")
	require(cmd, "from")
	return cmd
}

// tool runs one of etcd's tools, which are roles of this program.
func tool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, self, args...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, text)
	}
	return nil
}

// unreadable is the error for a file of which etcd's tool makes no data. Of what the tool prints, the line that says why is
// repeated; the others are its log.
func unreadable(file string, err error) error {
	why, _, _ := strings.Cut(err.Error(), "\n")
	why, _, _ = strings.Cut(why, "\t")
	for line := range strings.Lines(err.Error()) {
		if said, ok := strings.CutPrefix(line, "Error: "); ok {
			why = strings.TrimSpace(said)
		}
	}
	return fmt.Errorf("restore %s: etcd can't read it as a snapshot (%s). Nothing was changed; give a file that `dev snapshot` or "+
		"`etcdctl snapshot save` wrote to its end", file, why)
}

// snapshot saves what etcd has now.
func snapshot(ctx context.Context, l layout, file string, out io.Writer) error {
	p, err := readPorts(l.ports())
	if _, running := l.running(); err != nil || !running {
		return fmt.Errorf("no control plane runs in %s: `dev up --dir %s` starts one", l.dir, l.dir)
	}
	if err := tool(ctx, "etcdctl", "--endpoints=https://"+loopback(p.Etcd), "--cacert="+l.pki("etcd-ca.crt"),
		"--cert="+l.pki("etcd-client.crt"), "--key="+l.pki("etcd-client.key"), "snapshot", "save", file); err != nil {
		return err
	}
	fmt.Fprintf(out, "saved a snapshot of %s in %s\n", l.dir, file)
	return nil
}

// restore makes a data folder of a snapshot, and where the control plane runs, kills its components: the supervisor starts them
// again, and etcd with the new folder.
func restore(ctx context.Context, l layout, file string, bump int64, out io.Writer) error {
	if bump < 0 {
		return fmt.Errorf("--bump-revision %d would take the revision back: give a positive number, or none", bump)
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	p, err := readPorts(l.ports())
	if err != nil {
		return fmt.Errorf("%w (has `dev up --dir %s` ever run?)", err, l.dir)
	}
	making := l.path("etcd-restoring")
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("remove what an earlier restore left: %w", err)
	}
	peer := "https://" + loopback(p.EtcdPeer)
	args := []string{"etcdutl", "snapshot", "restore", file, "--name=dev", "--data-dir=" + making,
		"--initial-cluster=dev=" + peer, "--initial-advertise-peer-urls=" + peer}
	if bump > 0 {
		args = append(args, fmt.Sprintf("--bump-revision=%d", bump), "--mark-compacted")
	}
	if err := tool(ctx, args...); err != nil {
		return unreadable(file, err)
	}
	if err := os.RemoveAll(l.restored()); err != nil {
		return fmt.Errorf("remove what an earlier restore left: %w", err)
	}
	if err := os.Rename(making, l.restored()); err != nil {
		return fmt.Errorf("put the restored data in place: %w", err)
	}
	if _, running := l.running(); !running {
		fmt.Fprintf(out, "the control plane in %s has the state of %s when it starts next\n", l.dir, file)
		return l.adoptRestored()
	}
	// etcd first: it takes longer to come back than the others take to die, so that none of them sees both states.
	if err := process.KillOnce(ctx, l.mark(), "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"); err != nil {
		return err
	}
	c, err := newClients(l, p)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	err = wait(bounded, 100*time.Millisecond, func(ctx context.Context) error {
		if _, err := os.Stat(l.restored()); !errors.Is(err, os.ErrNotExist) {
			return errors.New("etcd has not started again")
		}
		return c.kube.ready("/readyz")(ctx)
	})
	if err != nil {
		return fmt.Errorf("wait for kube-apiserver: %w", err)
	}
	fmt.Fprintf(out, "the control plane in %s has the state of %s\n", l.dir, file)
	return nil
}

// adoptRestored puts restored data in the place of etcd's, where there is any. etcd must not run.
func (l layout) adoptRestored() error {
	if _, err := os.Stat(l.restored()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(l.replaced()); err != nil {
		return fmt.Errorf("remove the data that an earlier restore replaced: %w", err)
	}
	if err := os.Rename(l.etcd(), l.replaced()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set the data of etcd aside: %w", err)
	}
	if err := os.Rename(l.restored(), l.etcd()); err != nil {
		return fmt.Errorf("put the restored data in place: %w", err)
	}
	return nil
}
