# Every target is a line or two; `make ci` is what CI runs.
TOOLS = go tool -modfile=tools/go.mod
BASELINE = proto/zk/v1/baseline.binpb
BREAKING = $(TOOLS) buf breaking --against $(BASELINE)
SHARED ?= ../shared
HARNESSES = curator java-client old-java c-client node zkcli kazoo-suite

.PHONY: build test race lint gen gen-check fuzz bench benchstat tidy interop interop-locks oracle apache-client clients differential kafka kafka-move kafka-kraft harnesses $(HARNESSES) sim hostile mutations profile guard ci

build:            ## both commands into bin/
	go build -o bin/ ./cmd/...
test:             ## the README's test command
	go test ./...
race:
	go test -race -timeout 15m ./...
lint:
	gofmt -l $$(git ls-files '*.go') | (! grep .)
	go vet ./...
	$(TOOLS) golangci-lint run ./...
	$(TOOLS) buf lint
	$(BREAKING)
gen:              ## generated code, and the API that later changes must not break, from the proto files
	$(BREAKING)
	$(TOOLS) buf generate
	$(TOOLS) buf build --exclude-source-info --path proto/zk -o $(BASELINE)
gen-check: gen    ## it is committed and fresh
	git diff --exit-code -- proto
fuzz:             ## a short run of every fuzz target
	.ci/fuzz $(FUZZTIME)
bench:
	go test -run '^$$' -bench . -benchmem ./...
benchstat:        ## a commit's benchmarks and the working tree's: make benchstat COMMIT=HEAD~1 BENCH=Propose PKG=./zab
	BENCH='$(BENCH)' .ci/benchstat $(or $(COMMIT),HEAD) $(PKG)
tidy:
	go mod tidy && cd tools && go mod tidy
oracle: build     ## the recorded behaviour of Apache ZooKeeper, against one server and three
	.ci/oracle $(SHARED) bin/zkserver
apache-client:    ## our client, its recipes and zkcli against Apache ZooKeeper itself
	.ci/apache-client $(SHARED)
clients: build    ## real client libraries while leaders are killed
	.ci/clients $(SHARED) bin/zkserver
differential: build ## random programs against Apache ZooKeeper and this server: make differential SEEDS=700 (SEEDS=endings: expiry)
	.ci/differential $(SHARED) bin/zkserver $(SEEDS)
harnesses: build ## programs and suites that others wrote, against one server and three; $(HARNESSES) are targets too
	.ci/interop $(SHARED) bin/zkserver
$(HARNESSES): build
	.ci/interop $(SHARED) bin/zkserver $@
kafka: build      ## Apache Kafka while the ensemble's leader is killed: five runs, and one with kills during Kafka's failovers
	.ci/kafka $(SHARED) bin/zkserver --runs 5
	.ci/kafka $(SHARED) bin/zkserver --during-failover
kafka-move: build ## a Kafka cluster moves from Apache ZooKeeper and back, as docs/kafka.md says
	.ci/kafka-move $(SHARED) bin/zkserver
kafka-kraft: build ## Kafka's own migration to KRaft
	.ci/kafka-kraft $(SHARED) bin/zkserver
sim:              ## simulated ensembles until stopped; or make sim SEEDS=1000, make sim SEED=7 ARGS=-trace
	go build -o bin/storm ./server/sim/storm
	bin/storm $(if $(SEEDS),-seeds $(SEEDS)) $(if $(SEED),-seed $(SEED)) -failed server/sim/testdata/failed.txt $(ARGS)
hostile: build    ## storms over real servers: make hostile STORMS=20 ARGS='-minutes 5 -seed 7' (-means: as root, small file systems and control groups)
	go build -o bin/hostile ./server/hostile/run
	bin/hostile -zkserver bin/zkserver -storms $(or $(STORMS),1) $(ARGS)
mutations:        ## every deliberate fault of testdata/mutations, and who finds it: make mutations ARGS='-only r0 -by explorer'
	go run ./server/sim/mutation/run $(ARGS)
profile: build    ## a profile of a server under load: make profile KIND=cpu LOAD='set -c 16 -d 1' (docs/profiling.md)
	.ci/profile $(SHARED) bin/zkserver $(or $(KIND),cpu) $(LOAD)
guard: build      ## CPU of the hot paths beside the echo server's, with bounds; make guard PLANTED=planted: it can fail
	.ci/guard $(SHARED) bin/zkserver $(PLANTED)
interop-locks: build ## our locks beside those of Curator, kazoo and go-zookeeper, a minute each; then the other recipes
	.ci/interop-locks $(SHARED) bin/zkserver
interop: oracle differential apache-client clients harnesses interop-locks
ci:
	.ci/run
