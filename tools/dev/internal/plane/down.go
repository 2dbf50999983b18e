package plane

import (
	"context"
	"fmt"
	"io"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/process"
	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

// downGrace is how long a supervisor has to stop its components before it is killed itself, and they with it.
const downGrace = 60 * time.Second

// down stops the instance and waits until it is gone. Stopping what does not run is no error.
func down(ctx context.Context, l layout, out io.Writer) error {
	id, running := l.running()
	if running {
		if err := id.End(ctx, downGrace); err != nil {
			return err
		}
	}
	killed, err := process.KillMarked(ctx, l.mark())
	if err != nil {
		return fmt.Errorf("end what is left of the control plane: %w", err)
	}
	if err := realnode.Clean(ctx, l.realNode(), realnode.None); err != nil {
		return err
	}
	switch {
	case running:
		fmt.Fprintf(out, "the control plane in %s has stopped\n", l.dir)
	case killed > 0:
		fmt.Fprintf(out, "ended %d processes that an earlier run left behind in %s\n", killed, l.dir)
	default:
		fmt.Fprintf(out, "no control plane runs in %s\n", l.dir)
	}
	return nil
}
