//go:build !race

package main

// figures tells whether what a test measures is the product: the race detector takes its own memory and time.
const figures = true
