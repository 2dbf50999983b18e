package config

import "net/url"

// Fleet is the section fleet: several clusters under one hub.
type Fleet struct {
	// Enabled lets member clusters join this one, which is the hub (multicluster.clusterRole is host); false.
	Enabled bool `json:"enabled"`
	// LiteMemory is how much memory the objects of all members may take together in which no program of ours runs (2Gi). Beyond it one kind
	// with many objects can't be listed.
	LiteMemory Bytes `json:"liteMemory"`
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

func (f *Fleet) check(role string, fault func(format string, args ...any)) {
	if f.Enabled && role != "host" {
		fault("fleet.enabled: members join a cluster whose multicluster.clusterRole is host, not %q", role)
	}
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
