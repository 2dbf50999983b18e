package plan

import (
	"strconv"
	"testing"
)

// Beyond the bound a workspace depends on all namespaces, as its key says, and is never checked again.
func TestStraysAreBounded(t *testing.T) {
	var s outsiders
	for i := range maxOutsiders - 1 {
		s.add("w", strconv.Itoa(i))
	}
	s.add("other", "n")
	if now := s.of("w"); now.all || len(now.namespaces) != maxOutsiders-1 || !now.has("7") || now.has("n") || s.of("third") != nil {
		t.Fatalf("%d are noted", len(now.namespaces))
	}
	s.add("w", "n")
	full := s.of("w")
	if !full.all || len(full.namespaces) != 0 || !full.has("anything") || s.count != 1 || !s.of("other").has("n") || s.of("other").all {
		t.Errorf("%+v of %d", full, s.count)
	}
	if s.add("w", "another"); s.of("w") != full {
		t.Error("it is not settled")
	}
	one, two := workspaceScope{&namespaceOwners{digest: "1"}, "w", full}, workspaceScope{&namespaceOwners{digest: "2"}, "w", full}
	if string(one.appendKey(nil)) == string(two.appendKey(nil)) {
		t.Error("its key does not say on which namespaces it depends")
	}
}
