package redaction

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// S66: the fields that decide where or how a credential is sent do not change while any field of the credential stays.
func TestCredentialsAreNotSentElsewhere(t *testing.T) {
	cluster, repository, repo := in("cluster.kubesphere.io", "clusters"), in("kubesphere.io", "repositories"), in("application.kubesphere.io", "repos")
	for name, c := range map[string]struct {
		kind     schema.GroupResource
		old, now string
		moved    string // the field that is named, empty if the write is allowed
	}{
		"URL":               {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"b","credential":{"password":"p"}}}`, "spec.url"},
		"NoURL":             {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"credential":{"password":"p"}}}`, "spec.url"},
		"ANewCredential":    {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"b","credential":{"password":"q"}}}`, ""},
		"NoCredential":      {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"b"}}`, ""},
		"AnEmptyCredential": {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"b","credential":{"password":""}}}`, ""},
		"ANullCredential":   {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"b","credential":null}}`, ""},
		"HalfOfACredential": {repo, `{"spec":{"url":"a","credential":{"certFile":"c","keyFile":"k"}}}`,
			`{"spec":{"url":"b","credential":{"certFile":"d","keyFile":"k"}}}`, "spec.url"},
		"TheSameName": {repo, `{"spec":{"url":"a","credential":{"username":"u","password":"p"}}}`,
			`{"spec":{"url":"b","credential":{"username":"u","password":"q"}}}`, ""},
		"CAWithinTheCredential": {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"a","credential":{"password":"p","caFile":"x"}}}`,
			"spec.credential.caFile"},
		"NoTLSWithinTheCredential": {repo, `{"spec":{"url":"a","credential":{"password":"p","insecureSkipTLSVerify":false}}}`,
			`{"spec":{"url":"a","credential":{"password":"p","insecureSkipTLSVerify":true}}}`, "spec.credential.insecureSkipTLSVerify"},
		"ANewPassword": {repo, `{"spec":{"url":"a","credential":{"username":"u","password":"p","caFile":"c"}}}`,
			`{"spec":{"url":"a","credential":{"username":"u","password":"q","caFile":"c"}}}`, ""},
		"AnUnknownSecret": {repo, `{"spec":{"url":"a","credential":{"bearer":{"token":"t"}}}}`, `{"spec":{"url":"b","credential":{"bearer":{"token":"t"}}}}`,
			"spec.url"},
		"AnUnknownAddress": {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"a","proxyURL":"x","credential":{"password":"p"}}}`,
			"spec.proxyURL"},
		"WhatTellsPeople": {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`,
			`{"metadata":{"labels":{"a":"b"}},"status":{"state":"x"},"spec":{"url":"a","description":"d","syncPeriod":7,"credential":{"password":"p"}}}`, ""},
		"WhatIsMissingAndEmpty": {repo, `{"spec":{"url":"a","credential":{"password":"p"}}}`,
			`{"spec":{"url":"a","proxy":{},"ca":"","n":0,"credential":{"password":"p","insecureSkipTLSVerify":false}}}`, ""},
		"RepositoryURL": {repository, `{"spec":{"url":"a","basicAuth":{"username":"u","password":"p"}}}`,
			`{"spec":{"url":"b","basicAuth":{"username":"u","password":"p"}}}`, "spec.url"},
		"RepositoryCA": {repository, `{"spec":{"url":"a","basicAuth":{"password":"p"}}}`,
			`{"spec":{"url":"a","caBundle":"x","basicAuth":{"password":"p"}}}`, "spec.caBundle"},
		"RepositoryInsecure": {repository, `{"spec":{"url":"a","basicAuth":{"password":"p"}}}`,
			`{"spec":{"url":"a","insecure":true,"basicAuth":{"password":"p"}}}`, "spec.insecure"},
		"RepositoryUser": {repository, `{"spec":{"url":"a","basicAuth":{"username":"u","password":"p"}}}`,
			`{"spec":{"url":"a","basicAuth":{"username":"v","password":"p"}}}`, "spec.basicAuth.username"},
		"RepositoryPoll": {repository, `{"spec":{"url":"a","basicAuth":{"password":"p"}}}`,
			`{"spec":{"url":"a","updateStrategy":{"registryPoll":{"interval":"1h"}},"depth":2,"basicAuth":{"password":"p"}}}`, ""},
		"ClusterEndpoint": {cluster, `{"spec":{"connection":{"kubeconfig":"k","kubernetesAPIEndpoint":"a"}}}`,
			`{"spec":{"connection":{"kubeconfig":"k","kubernetesAPIEndpoint":"b"}}}`, "spec.connection.kubernetesAPIEndpoint"},
		"ClusterType": {cluster, `{"spec":{"connection":{"token":"t","type":"proxy"}}}`, `{"spec":{"connection":{"token":"t","type":"direct"}}}`,
			"spec.connection.type"},
		"ClusterPort": {cluster, `{"spec":{"connection":{"token":"t","kubernetesAPIServerPort":1}}}`,
			`{"spec":{"connection":{"token":"t","kubernetesAPIServerPort":2}}}`, "spec.connection.kubernetesAPIServerPort"},
		"ClusterConfig": {cluster, `{"spec":{"connection":{"kubeconfig":"k"}}}`, `{"spec":{"config":"eA==","connection":{"kubeconfig":"k"}}}`,
			"spec.config"},
		"OneOfTwoCredentials": {cluster, `{"spec":{"connection":{"kubeconfig":"k","token":"t","type":"proxy"}}}`,
			`{"spec":{"connection":{"kubeconfig":"l","token":"t","type":"direct"}}}`, "spec.connection.type"},
		"ANewKubeconfig": {cluster, `{"spec":{"connection":{"kubeconfig":"k","token":"t","type":"proxy"}}}`,
			`{"spec":{"connection":{"kubeconfig":"l","token":"t","type":"proxy"}}}`, ""},
		"AMemberThatDials": {cluster, `{"spec":{"connection":{"kubeconfig":"k","type":"proxy","kubernetesAPIEndpoint":"a"}}}`,
			`{"spec":{"config":"eA==","connection":{"kubeconfig":"k","type":"proxy","kubernetesAPIEndpoint":"b"}}}`, ""},
		"AMemberThatDialedAndIsDialed": {cluster, `{"spec":{"connection":{"kubeconfig":"k","type":"proxy"}}}`,
			`{"spec":{"connection":{"kubeconfig":"k","type":"direct"}}}`, "spec.connection.type"},
		"AMemberThatDialsNow": {cluster, `{"spec":{"connection":{"kubeconfig":"k","type":"direct"}}}`,
			`{"spec":{"connection":{"kubeconfig":"k","type":"proxy"}}}`, "spec.connection.type"},
		"ATypeThatIsNone": {cluster, `{"spec":{"connection":{"kubeconfig":"k","type":["proxy"],"kubernetesAPIEndpoint":"a"}}}`,
			`{"spec":{"connection":{"kubeconfig":"k","type":["proxy"],"kubernetesAPIEndpoint":"b"}}}`, "spec.connection.kubernetesAPIEndpoint"},
		"ClusterIsOff": {cluster, `{"spec":{"enable":true,"connection":{"kubeconfig":"k"}}}`,
			`{"spec":{"enable":false,"provider":"x","joinFederation":true,"connection":{"kubeconfig":"k"}}}`, ""},
		"AnotherMember":      {cluster, `{"spec":{"connection":{"kubeconfig":"k"}}}`, `{"spec":{"connection":{"kubeconfig":"k"}},"proxy":"x"}`, "proxy"},
		"AnotherType":        {cluster, `{"spec":{"connection":{"kubeconfig":"k"}}}`, `{"spec":7}`, ""},
		"WhereNothingIsKept": {cluster, `{"spec":{}}`, `{"spec":{"connection":{"kubeconfig":"k","type":"direct"}}}`, ""},
		"OfAnotherKind":      {in("", "pods"), `{"spec":{"url":"a","credential":{"password":"p"}}}`, `{"spec":{"url":"b","credential":{"password":"p"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var old, now map[string]any
			if err := json.Unmarshal([]byte(c.old), &old); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.now), &now); err != nil {
				t.Fatal(err)
			}
			err := CheckSent(c.kind, old, now)
			if c.moved == "" && err != nil || c.moved != "" && (err == nil || !strings.HasPrefix(err.Error(), c.moved+" changes, and spec.")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// S66: each kind that has a credential which is sent to an address hides it.
func TestWhatIsSentIsHidden(t *testing.T) {
	n := 0
	for _, gr := range withHidden() {
		s := sentOf(gr)
		if !IsSent(gr) {
			continue
		}
		n++
		for _, path := range Hidden(gr) {
			at := s.credential
			for i, step := range path {
				below, ok := at[step]
				if !ok {
					t.Errorf("%v: %v is hidden, and may be sent elsewhere", gr, path)
					break
				}
				if below == nil && i < len(path)-1 {
					break
				}
				at = below
			}
		}
		if slices.Contains([]string{"users", "sessions", "apikeys", "factors", "lockouts"}, gr.Resource) {
			t.Errorf("%v is sent nowhere", gr)
		}
	}
	if n != 3 {
		t.Errorf("%d kinds have a credential that is sent", n)
	}
}
