package config

import (
	"net/url"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Fleet is the section fleet: several clusters under one hub.
type Fleet struct {
	// Enabled lets member clusters join this one, which is the hub (multicluster.clusterRole is host); false.
	Enabled bool `json:"enabled"`
	// LiteMemory is how much memory the objects of all members may take together in which no program of ours runs (2Gi). Beyond it one kind
	// with many objects can't be listed.
	LiteMemory Bytes `json:"liteMemory"`
	// SharedSecretMembers are the direct members in which an older release runs, which knows its callers by a secret alone: requests go there
	// with tokens of a minute that are signed with it. None: who has the secret of a member can be any user there.
	SharedSecretMembers []string `json:"sharedSecretMembers"`
	// SharedSecretDirectory has the secret of each of them, in the file shared-secret-<name>: no two of them have the same (/etc/kubesphere).
	SharedSecretDirectory string `json:"sharedSecretDirectory"`
	// Agent is what members run.
	Agent FleetAgent `json:"agent"`
	// Hub is where this cluster joins as a member (multicluster.clusterRole is member).
	Hub FleetHub `json:"hub"`
}

// FleetAgent is what a member runs, which joins by the deployment that this server answers for its Cluster.
type FleetAgent struct {
	// APIServerImage and ControllerManagerImage are its images; ks-apiserver:latest and ks-controller-manager:latest.
	APIServerImage         string `json:"apiserverImage"`
	ControllerManagerImage string `json:"controllerManagerImage"`
	// CAFile has the authorities of this server's certificate, in PEM; kubeconfig.certificateAuthority, or else those of the member's
	// system.
	CAFile string `json:"caFile"`
}

// FleetHub is where a member finds its hub.
type FleetHub struct {
	// URL is the hub's https address; none.
	URL string `json:"url"`
	// CAFile has the authorities of its certificate, in PEM; those of the system.
	CAFile string `json:"caFile"`
	// TokenFile has the join token. It is read when this cluster joins, and may be removed afterwards.
	TokenFile string `json:"tokenFile"`
}

func (f *Fleet) check(role, host string, fault func(format string, args ...any)) {
	if f.Enabled && role != "host" {
		fault("fleet.enabled: members join a cluster whose multicluster.clusterRole is host, not %q", role)
	}
	f.checkSharedSecrets(host, fault)
	if f.Hub.URL == "" {
		return
	}
	if role != "member" {
		fault("fleet.hub.url: only a cluster whose multicluster.clusterRole is member joins a hub, not %q", role)
	}
	u, err := url.Parse(f.Hub.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		fault("fleet.hub.url: %q is no https address of a hub", f.Hub.URL)
	}
}

// checkSharedSecrets checks the list of members that know their callers by a secret alone. Their names are those of files.
func (f *Fleet) checkSharedSecrets(host string, fault func(format string, args ...any)) {
	if len(f.SharedSecretMembers) == 0 {
		return
	}
	if !f.Enabled {
		fault("fleet.sharedSecretMembers: only a hub has members: fleet.enabled is false")
	}
	if !filepath.IsAbs(f.SharedSecretDirectory) {
		fault("fleet.sharedSecretDirectory: %q is no absolute path", f.SharedSecretDirectory)
	}
	for i, name := range f.SharedSecretMembers {
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			fault("fleet.sharedSecretMembers[%d]: %q is no name of a Cluster", i, name)
		case name == host || name == "host":
			fault("fleet.sharedSecretMembers[%d]: %q is this cluster itself, which accepts no such token", i, name)
		case slices.Index(f.SharedSecretMembers, name) != i:
			fault("fleet.sharedSecretMembers[%d]: %q is there twice", i, name)
		}
	}
}
