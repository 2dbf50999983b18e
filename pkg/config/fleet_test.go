package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestAFleetHasOneHub(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"fleet: {enabled: true}": "",
		"multicluster: {clusterRole: member}\nfleet: {hub: {url: 'https://hub.example'}}":       "",
		"multicluster: {clusterRole: member}\nfleet: {hub: {url: 'https://hub.example/kapis'}}": "",
		"multicluster: {clusterRole: member}\nfleet: {enabled: true}":                           "fleet.enabled",
		"fleet: {hub: {url: 'https://hub.example'}}":                                            "fleet.hub.url",
		"multicluster: {clusterRole: member}\nfleet: {hub: {url: 'http://hub.example'}}":        "no https address",
		"multicluster: {clusterRole: member}\nfleet: {hub: {url: 'https://a:b@hub.example'}}":   "no https address",
		"multicluster: {clusterRole: member}\nfleet: {hub: {url: 'https://hub.example/?a=b'}}":  "no https address",
		"multicluster: {clusterRole: member}\nfleet: {hub: {url: 'https:'}}":                    "no https address",
		"fleet: {enable: true}": "enable",
		"fleet: {enabled: true, sharedSecretMembers: [shop, edge.eu]}":                              "",
		"fleet: {sharedSecretMembers: [shop]}":                                                      "only a hub has members",
		"fleet: {enabled: true, sharedSecretMembers: [shop], sharedSecretDirectory: secrets}":       "no absolute path",
		"fleet: {enabled: true, sharedSecretMembers: [../shop]}":                                    "no name of a Cluster",
		"fleet: {enabled: true, sharedSecretMembers: ['*']}":                                        "no name of a Cluster",
		"fleet: {enabled: true, sharedSecretMembers: ['']}":                                         "no name of a Cluster",
		"fleet: {enabled: true, sharedSecretMembers: [shop, edge, shop]}":                           "is there twice",
		"fleet: {enabled: true, sharedSecretMembers: [host]}":                                       "this cluster itself",
		"multicluster: {hostClusterName: hub}\nfleet: {enabled: true, sharedSecretMembers: [hub]}":  "this cluster itself",
		"multicluster: {hostClusterName: hub}\nfleet: {enabled: true, sharedSecretMembers: [host]}": "this cluster itself",
	} {
		c, err := config.Parse([]byte("authentication: {issuer: {url: 'https://ks.example'}}\n"+text), nil)
		if err == nil {
			err = c.Validate()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	c, err := config.Parse(nil, nil)
	if err != nil || c.Fleet.Enabled || len(c.Fleet.SharedSecretMembers) > 0 || c.Fleet.Agent.APIServerImage == "" || c.Fleet.Agent.ControllerManagerImage == "" {
		t.Errorf("%+v, %v", c.Fleet, err)
	}
}
