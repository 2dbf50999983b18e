package crd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
)

func TestGoing(t *testing.T) {
	const name = "workspaces.tenant.kubesphere.io"
	for claim, c := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"OneThatIsThereIsNot":  {[]client.Object{controllertest.Definition(name, false)}, false},
		"OneThatIsDeletedIs":   {[]client.Object{controllertest.Definition(name, true)}, true},
		"OneThatIsGoneIs":      {nil, true},
		"AnotherOneIsNoMatter": {[]client.Object{controllertest.Definition(name, false), controllertest.Definition("x.example.com", true)}, false},
		"AnotherOneIsNoExcuse": {[]client.Object{controllertest.Definition("x.example.com", false)}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			if got, err := crd.Going(context.Background(), controllertest.New(t, nil, c.objects...).Client, name); err != nil || got != c.want {
				t.Errorf("got %t, %v, want %t", got, err, c.want)
			}
		})
	}
}

type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("down")
}

// An error of kube-apiserver must cause neither the deletion of a namespace, nor that it is spared.
func TestAnErrorIsNoAnswer(t *testing.T) {
	if _, err := crd.Going(context.Background(), failing{}, "x"); err == nil {
		t.Error("there is no error")
	}
}

func TestMissing(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("write: %w", &meta.NoKindMatchError{}), true},
		{fmt.Errorf("write: %w", apierrors.NewGenericServerResponse(404, "post", schema.GroupResource{}, "", "", 0, true)), true},
		{fmt.Errorf("make: %w", apierrors.NewForbidden(schema.GroupResource{}, "x",
			errors.New("create not allowed while custom resource definition is terminating"))), true},
		{apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no role allows it")), false},
		{errors.New("down"), false},
		{apierrors.NewConflict(schema.GroupResource{}, "x", nil), false},
	} {
		if got := crd.Missing(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
