package cluster

import (
	"context"
	"time"
)

// KeepEach calls keep once for each member that wanted selects, and ends its context when the member is not selected any more, until ctx
// ends. It looks at the members at each interval.
func (m *Members) KeepEach(ctx context.Context, interval time.Duration, wanted func(*Member) bool, keep func(context.Context, *Member)) {
	running := map[string]context.CancelFunc{}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		here := map[string]bool{}
		for _, member := range m.All() {
			if !wanted(member) {
				continue
			}
			here[member.UID] = true
			if running[member.UID] == nil {
				life, cancel := context.WithCancel(ctx)
				running[member.UID] = cancel
				go keep(life, member)
			}
		}
		for uid, cancel := range running {
			if !here[uid] {
				cancel()
				delete(running, uid)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
