package conditions

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
)

// kind is how the lists of a kind differ from those of others.
type kind struct {
	// clusterScoped kinds have no lists in namespaces.
	clusterScoped bool
	// same are the conditions with "=" that are parameters of today's list, under the same name.
	same []string
	// special translates the other conditions with "=" that the kind has of its own.
	special map[string]func(t *translation, value string) error
	// orders are the values of orderBy that only some kinds have, and today's sort keys.
	orders map[string]string
}

var (
	updated   = map[string]string{"updateTime": "updateTime"}
	workload  = kind{same: []string{"status"}}
	plainKind = kind{}
	native    = kind{special: map[string]func(*translation, string) error{"userfacing": (*translation).userFacing}}
)

// kinds are the kinds that the version lists, by their plural name.
var kinds = map[string]kind{
	"configmaps":   plainKind,
	"daemonsets":   workload,
	"deployments":  {same: []string{"status"}, orders: updated},
	"ingresses":    plainKind,
	"roles":        native,
	"services":     plainKind,
	"statefulsets": workload,
	"secrets":      {same: []string{"type"}},
	"cronjobs":     {same: []string{"status"}, orders: map[string]string{"lastScheduleTime": ".status.lastScheduleTime"}},
	"jobs": {
		same: []string{"status"}, orders: updated,
		special: map[string]func(*translation, string) error{"includeCronJob": (*translation).includeCronJob},
	},
	"persistentvolumeclaims":   {same: []string{"status", "storageClassName"}},
	"horizontalpodautoscalers": {same: []string{"targetKind", "targetName"}},
	"pods": {
		same: []string{"status", "nodeName", "pvcName", "serviceName"}, orders: map[string]string{"startTime": "startTime"},
		special: map[string]func(*translation, string) error{
			"ownerKind": func(t *translation, v string) error { t.ownerKind = v; return nil },
			"ownerName": func(t *translation, v string) error { t.ownerName = v; return nil },
		},
	},

	"clusterroles":   {clusterScoped: true, special: native.special},
	"namespaces":     {clusterScoped: true, same: []string{"status"}},
	"storageclasses": {clusterScoped: true},
	"workspaces":     {clusterScoped: true},
	"nodes": {
		clusterScoped: true, same: []string{"status"},
		special: map[string]func(*translation, string) error{"role": (*translation).nodeRole},
	},
}

// find returns a kind by its plural name, or a 404 for one that the version does not list there.
func find(plural, namespace string) (kind, error) {
	k, ok := kinds[plural]
	switch {
	case !ok:
		return kind{}, status.Errorf(http.StatusNotFound,
			"resources.kubesphere.io/v1alpha2 has no list of %.100q, only of %s: v1alpha3 lists every kind", plural,
			strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	case k.clusterScoped && namespace != "":
		return kind{}, status.Errorf(http.StatusNotFound, "%s are not in namespaces: ask for /%s", plural, plural)
	}
	return k, nil
}
