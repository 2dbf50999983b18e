package rego

import (
	"context"
	"errors"

	"github.com/open-policy-agent/opa/v1/storage"
)

// noData is the store of a policy's data besides its input: it has none.
type noData struct {
	storage.PolicyNotSupported
	storage.TriggersNotSupported
	storage.WritesNotSupported
}

// NewTransaction implements storage.Store.
func (noData) NewTransaction(context.Context, ...storage.TransactionParams) (storage.Transaction, error) {
	return nil, errors.New("policies have no data")
}

// Read implements storage.Store: nothing is there.
func (noData) Read(context.Context, storage.Transaction, storage.Path) (any, error) {
	return nil, &storage.Error{Code: storage.NotFoundErr, Message: "policies have no data"}
}

// Commit implements storage.Store.
func (noData) Commit(context.Context, storage.Transaction) error { return nil }

// Truncate implements storage.Store.
func (noData) Truncate(context.Context, storage.Transaction, storage.TransactionParams, storage.Iterator) error {
	return errors.New("policies have no data")
}

// Abort implements storage.Store.
func (noData) Abort(context.Context, storage.Transaction) {}
