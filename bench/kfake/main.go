// Command kfake runs franz-go's fake Kafka with the broker configurations key=value that it is given, until SIGTERM. It prints READY host:port.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	configs := map[string]string{}
	for _, arg := range os.Args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		configs[key] = value
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(configs))
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
	fmt.Println("READY", cluster.ListenAddrs()[0])
	<-end
	cluster.Close()
}
