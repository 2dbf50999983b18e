// Package setting reads the settings of the platform that change while it runs: its theme, the theme's images, configurations of
// extensions, and how member clusters are connected. They are in ConfigMaps and Secrets of the platform's namespace, which every replica
// watches and caches in the form in which it answers. They are written elsewhere, as the caller.
//
// Memory is bounded by what is watched: one ConfigMap for the theme, ImageSlots for images, and Secrets of two types, which only users
// with a right to them create.
package setting
