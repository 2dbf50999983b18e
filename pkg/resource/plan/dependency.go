package plan

import (
	"bytes"
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// dependency is another kind that a plan was made from, and its state at that time.
type dependency struct {
	gvr        schema.GroupVersionResource
	generation uint64
}

// Outdated reports whether a new plan would have another outcome, because something it depends on besides the objects that
// it is for has changed.
func (b *Builder) Outdated(ctx context.Context) bool {
	if !b.moved(ctx) {
		return false
	}
	again, err := b.Planner.Plan(ctx, b.Kind, b.Scope, b.Query)
	if err != nil || again.Never != b.Never || !b.adoptWorkspace(again) || !bytes.Equal(again.ResultKey(nil), b.ResultKey(nil)) {
		return true
	}
	b.Depends = again.Depends
	return false
}

// moved reports whether a kind that the plan depends on has changed at all.
func (b *Builder) moved(ctx context.Context) bool {
	for _, d := range b.Depends {
		snap, err := b.Planner.store.Snapshot(ctx, d.gvr)
		if err != nil || snap.Generation() != d.generation {
			return true
		}
	}
	return false
}

// depend records that the plan is made from another kind, as of a generation of it.
func (b *Builder) depend(gvr schema.GroupVersionResource, generation uint64) {
	b.Depends = append(b.Depends, dependency{gvr, generation})
}
