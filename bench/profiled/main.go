// Command profiled runs kshare as kshare serve does and writes a CPU profile of it. It takes a directory for the profile and broker configurations
// key=value, --dir with the directory of the cluster and --kip1289; it prints READY host:port and ends with SIGTERM.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"

	"kshare"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "profiled:", err)
		os.Exit(1)
	}
}

func run(dir string, configs []string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	profile, err := os.Create(filepath.Join(dir, fmt.Sprintf("kshare-%d.pprof", os.Getpid())))
	if err != nil {
		return err
	}
	var opts []kshare.Option
	for i := 0; i < len(configs); i++ {
		if configs[i] == "--dir" && i+1 < len(configs) {
			i++
			opts = append(opts, kshare.WithDirectory(configs[i]))
			continue
		}
		if configs[i] == "--kip1289" {
			opts = append(opts, kshare.WithKIP1289())
			continue
		}
		key, value, _ := strings.Cut(configs[i], "=")
		opts = append(opts, kshare.WithConfig(key, value))
	}
	cluster, err := kshare.Start(opts...)
	if err != nil {
		return err
	}
	fmt.Println("READY", cluster.Addrs()[0])
	if err := pprof.StartCPUProfile(profile); err != nil {
		return err
	}
	<-end
	pprof.StopCPUProfile()
	return errors.Join(cluster.Close(), profile.Close())
}
