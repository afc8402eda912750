//go:build race

package protocol

const raceDetector = true
