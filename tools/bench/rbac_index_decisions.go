package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	fewPeople  = 10
	manyPeople = 50_000
	decisions  = 300_000
)

// authorize measures one decision of the index that the product decides with, in this process, with few bindings and with
// many.
func authorize() ([]figure, error) {
	few, _, err := decide(fewPeople)
	if err != nil {
		return nil, err
	}
	many, conditional, err := decide(manyPeople)
	if err != nil {
		return nil, err
	}
	const goal = "<= 0.5 us"
	return []figure{
		{
			name: fmt.Sprintf("authorize-with-%d-bindings", manyPeople), value: micros(many), unit: "us",
			yardstick: fmt.Sprintf("with-%d-bindings", fewPeople), base: micros(few), goal: goal,
		},
		{name: "authorize-with-a-condition", value: micros(conditional), unit: "us", goal: goal},
	}, nil
}

// decide returns how long a decision takes where so many users are bound, each to a role in a namespace, and one by a role with a
// condition.
func decide(people int) (plain, conditional time.Duration, err error) {
	index, err := rbac.NewIndex()
	if err != nil {
		return 0, 0, err
	}
	sinks := map[string]store.Sink{}
	for gvr, sink := range index.Sinks() {
		sinks[gvr.Resource] = sink
	}
	set := func(resource, namespace, name, json string) {
		sinks[resource].Set(&store.Object{Namespace: namespace, Name: name, Raw: []byte(json)})
	}
	set("globalroles", "", "self", `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"request.name == user.name"}},`+
		`"rules":[{"apiGroups":["iam.kubesphere.io"],"resources":["users"],"verbs":["get"]}]}`)
	set("globalrolebindings", "", "self", `{"roleRef":{"kind":"GlobalRole","name":"self"},"subjects":[{"kind":"Group","name":"system:authenticated"}]}`)
	for i := range people {
		namespace := fmt.Sprintf("namespace-%d", i%5000)
		set("namespaces", "", namespace, `{}`)
		set("roles", namespace, "viewer", `{"rules":[{"apiGroups":[""],"resources":["pods","services"],"verbs":["get","list","watch"]}]}`)
		set("rolebindings", namespace, fmt.Sprint("b", i),
			fmt.Sprintf(`{"roleRef":{"kind":"Role","name":"viewer"},"subjects":[{"kind":"User","name":"user-%d"}]}`, i))
	}
	who := &user.DefaultInfo{Name: "user-7", Groups: []string{"dev", "system:authenticated"}}
	list := &request.Info{Verb: "list", Resource: "pods", IsResource: true, Namespace: "namespace-7", Scope: request.Namespace}
	self := &request.Info{Verb: "get", APIGroup: "iam.kubesphere.io", Resource: "users", Name: "user-7", IsResource: true,
		Scope: request.Global}
	if plain, err = repeat(index, who, list); err != nil {
		return 0, 0, err
	}
	conditional, err = repeat(index, who, self)
	return plain, conditional, err
}

// repeat returns the processor time of a decision, without that of other programs on the cores.
func repeat(index *rbac.Index, who user.Info, what *request.Info) (time.Duration, error) {
	before, err := stack.CPU(os.Getpid())
	if err != nil {
		return 0, err
	}
	for range decisions {
		d, err := index.Authorize(context.Background(), who, what)
		if err != nil || !d.Allowed() {
			return 0, errors.Join(errors.New("the index refuses what a role allows"), err)
		}
	}
	after, err := stack.CPU(os.Getpid())
	return (after - before) / decisions, err
}
