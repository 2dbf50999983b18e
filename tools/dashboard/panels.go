package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// rows are the rows of the dashboard: the metrics whose names have this prefix, in this order. Metrics without a prefix come last.
var rows = []struct{ title, prefix string }{
	{"Requests", "ks_server_"},
	{"Caches", "ks_cache_"},
	{"Logins", "ks_password_"},
	{"Logins", "ks_login_"},
	{"Logins", "ks_lockout_"},
	{"Logins", "ks_oauth_"},
	{"Sessions and tokens", "ks_session"},
	{"Sessions and tokens", "ks_token_"},
	{"Sessions and tokens", "ks_signing_"},
	{"Sessions and tokens", "ks_serviceaccount_"},
	{"Authorization", "ks_authorization_"},
	{"Terminals", "ks_terminal_"},
	{"Controllers", "ks_"},
}

// row returns the row of a metric in the dashboard.
func row(m Metric) int {
	return slices.IndexFunc(rows, func(r struct{ title, prefix string }) bool { return strings.HasPrefix(m.Name, r.prefix) })
}

// panel is a panel of Grafana.
type panel struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	GridPos     grid           `json:"gridPos"`
	Datasource  *datasource    `json:"datasource,omitempty"`
	FieldConfig map[string]any `json:"fieldConfig,omitempty"`
	Targets     []target       `json:"targets,omitempty"`
	Collapsed   *bool          `json:"collapsed,omitempty"`
}

type grid struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type target struct {
	RefID  string `json:"refId"`
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

var prometheus = &datasource{"prometheus", "${datasource}"}

// Dashboard returns the dashboard of metrics as Grafana's JSON: a panel for each, ordered by row and name.
func Dashboard(metrics []Metric) ([]byte, error) {
	sorted := slices.Clone(metrics)
	slices.SortFunc(sorted, func(a, b Metric) int { return cmp.Or(cmp.Compare(row(a), row(b)), strings.Compare(a.Name, b.Name)) })
	var panels []panel
	title, column, y, id := "", 0, 0, 0
	expanded := false
	for _, m := range sorted {
		if part := rows[row(m)].title; part != title {
			if column > 0 {
				y += 8
			}
			id++
			panels = append(panels, panel{ID: id, Type: "row", Title: part, GridPos: grid{1, 24, 0, y}, Collapsed: &expanded})
			title, column = part, 0
			y++
		}
		id++
		targets, unit := queries(m)
		panels = append(panels, panel{ID: id, Type: "timeseries", Title: m.Name, Description: m.Help, GridPos: grid{8, 8, column * 8, y},
			Datasource: prometheus, FieldConfig: map[string]any{"defaults": map[string]any{"unit": unit}, "overrides": []any{}}, Targets: targets})
		if column++; column == 3 {
			column = 0
			y += 8
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]any{
		"title":         "ks-apiserver",
		"uid":           "ks-apiserver",
		"tags":          []string{"ks-apiserver"},
		"schemaVersion": 39,
		"editable":      true,
		"refresh":       "30s",
		"time":          map[string]string{"from": "now-3h", "to": "now"},
		"templating": map[string]any{"list": []any{map[string]any{
			"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}},
		"panels": panels,
	}); err != nil {
		return nil, fmt.Errorf("encode the dashboard: %w", err)
	}
	return text.Bytes(), nil
}

// queries returns the queries of a panel, and the unit of the answers.
func queries(m Metric) ([]target, string) {
	labels := grouping(m)
	by, legend := "", "all replicas"
	if len(labels) > 0 {
		by = " by (" + strings.Join(labels, ", ") + ")"
		legend = "{{" + strings.Join(labels, "}} {{") + "}}"
	}
	switch m.Kind {
	case "counter":
		return []target{{"A", fmt.Sprintf("sum%s (rate(%s[$__rate_interval]))", by, m.Name), legend}}, "ops"
	case "histogram":
		var targets []target
		le := strings.Join(append([]string{"le"}, labels...), ", ")
		for i, q := range []string{"0.5", "0.99"} {
			targets = append(targets, target{string(rune('A' + i)),
				fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s_bucket[$__rate_interval])))", q, le, m.Name), legend + " p" + q[2:]})
		}
		return targets, "s"
	}
	unit, of := "short", "max"
	switch {
	case m.Name == "ks_cache_synced":
		of = "min" // one replica that is not matters; of a member, only those that it is linked to know
	case strings.HasSuffix(m.Name, "_timestamp_seconds"):
		return []target{{"A", fmt.Sprintf("min%s (%s > 0) - time()", by, m.Name), "time left"}}, "s"
	case strings.HasSuffix(m.Name, "_seconds"):
		unit = "s"
	case strings.HasSuffix(m.Name, "_bytes"):
		unit = "bytes"
	}
	return []target{{"A", fmt.Sprintf("%s%s (%s)", of, by, m.Name), legend}}, unit
}

// grouping returns the labels that a panel shows as lines of their own: those of requests are too many.
func grouping(m Metric) []string {
	if strings.HasPrefix(m.Name, "ks_server_") {
		return slices.DeleteFunc(slices.Clone(m.Labels), func(l string) bool { return l != "verb" && l != "code" })
	}
	return m.Labels
}
