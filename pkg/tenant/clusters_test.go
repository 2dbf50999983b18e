package tenant_test

import (
	"strings"
	"testing"
)

func TestAWorkspaceIsPlacedWhereItSays(t *testing.T) {
	f := newFleet(t)
	for name, c := range map[string]struct{ placement, want string }{
		"Nowhere":                 {`{}`, ""},
		"WhereItNames":            {`{"clusters":[{"name":"open"},{"name":"none"}]}`, "open none"},
		"NamesWinOverTheSelector": {`{"clusters":[{"name":"open"}],"clusterSelector":{}}`, "open"},
		"AnEmptySelectorFindsAll": {`{"clusterSelector":{}}`, "given host open other"},
		"WhereLabelsMatch":        {`{"clusterSelector":{"matchLabels":{"zone":"a"}}}`, "host open"},
		"WhereExpressionsMatch":   {`{"clusterSelector":{"matchExpressions":[{"key":"zone","operator":"DoesNotExist"}]}}`, "other"},
	} {
		names, err := f.Placed(t.Context(), `{"spec":{"placement":`+c.placement+`}}`)
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", name, got, err, c.want)
		}
	}
	for _, bad := range []string{`{"spec":{"placement":[]}}`, `{"spec":{"placement":{"clusterSelector":{"matchExpressions":[{"key":"a","operator":"x"}]}}}}`} {
		if _, err := f.Placed(t.Context(), bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestOnlyALabelMakesAClusterPublic(t *testing.T) {
	f := newFleet(t)
	for name, want := range map[string]bool{"open": true, "host": false, "none": false} {
		if got, err := f.IsPublic(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}
