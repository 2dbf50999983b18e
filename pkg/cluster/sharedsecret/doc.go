// Package sharedsecret makes tokens for members of a fleet that know their callers by a secret alone, which they share with the hub: those
// in which an older release of KubeSphere runs. A token is for one user at one member, for a minute.
//
// What such a member verifies is the signature, so that nothing but the secret tells it apart from others: each listed member has one of
// its own, and none has the one by which the hub itself accepts tokens of an older installation.
package sharedsecret
