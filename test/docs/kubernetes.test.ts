import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { loadConfig } from "../../shared/config/config-dir.ts";
import { readOperator } from "../../shared/config/read-operator.ts";
import { readPostern } from "../../shared/config/read-postern.ts";
import { readWebhooks } from "../../shared/config/read-webhooks.ts";
import { dirWith } from "../shared/config/files.ts";
import { blocksOf, readDocument } from "./blocks.ts";

type Labels = Record<string, string>;
type Probe = { httpGet?: { path: string; port: string } };
type Container = {
  args?: string[];
  envFrom?: { secretRef: { name: string } }[];
  ports: { name: string; containerPort: number }[];
  readinessProbe: Probe;
  livenessProbe?: Probe;
};
type Volume = { name: string; configMap: { name: string; items: { key: string; path: string }[] } };
type Manifest = {
  kind: string;
  metadata: { name: string };
  data: Record<string, string>;
  spec: {
    replicas: number;
    selector: Labels & { matchLabels: Labels };
    ports: { targetPort: string }[];
    template: {
      metadata: { labels: Labels };
      spec: { terminationGracePeriodSeconds: number; containers: [Container]; volumes: Volume[] };
    };
  };
};

const [block] = blocksOf("docs/kubernetes.md").filter(({ language }) => language === "yaml");
const documents = parseAllDocuments(block?.text ?? "");
const manifests = documents.map((document) => document.toJS() as Manifest);
const ofKind = (kind: string) => manifests.filter((manifest) => manifest.kind === kind);
const workloads = [...ofKind("Deployment"), ...ofKind("StatefulSet")];
const [config] = ofKind("ConfigMap") as [Manifest];
/** Deployments of Postern's processes; Redis is a StatefulSet. */
const deployments = ofKind("Deployment").map(({ metadata, spec }) => {
  const pod = spec.template.spec;
  return { name: metadata.name, replicas: spec.replicas, pod, container: pod.containers[0] };
});

/** Variables of the secrets that the page creates, by the name of the secret. */
const secrets = new Map(
  [...readDocument("docs/kubernetes.md").matchAll(/create secret generic (\S+) --from-literal=(\w+)=/g)].map(
    ([, name = "", variable = ""]) => [name, variable],
  ),
);

/** As `openssl rand -hex 32` of the page makes it. */
const randomSecret = () => randomBytes(32).toString("hex");

test("the manifests are good YAML, and each selector selects the pods of one workload", () => {
  expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
  const selecting = [...workloads, ...ofKind("Service"), ...ofKind("PodDisruptionBudget")];
  for (const { kind, metadata, spec } of selecting) {
    const wanted = kind === "Service" ? spec.selector : spec.selector.matchLabels;
    const selected = workloads.filter(
      ({ spec: { template } }) => template.metadata.labels["app"] === wanted["app"],
    );
    expect(
      selected.map((workload) => workload.metadata.name),
      kind,
    ).toEqual([metadata.name]);
    if (kind !== "Service") continue;
    const names = selected[0]?.spec.template.spec.containers[0].ports.map(({ name }) => name);
    expect(names).toContain(spec.ports[0]?.targetPort);
  }
});

test("each process starts with arguments that the program has, and with its files and secrets a good configuration", () => {
  for (const { name, container, pod } of deployments) {
    const [command = "", ...rest] = container.args ?? [];
    const program = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
    const help = spawnSync(process.execPath, [program, command, "--help"], { encoding: "utf8" });
    expect(help.status, name).toBe(0);
    for (const word of rest.filter((word) => word.startsWith("--"))) expect(help.stdout).toContain(word);

    const items = pod.volumes.flatMap(({ configMap }) => configMap.items);
    const dir = dirWith(Object.fromEntries(items.map(({ key, path }) => [path, config.data[key]])));
    const variables = (container.envFrom ?? []).map(
      ({ secretRef }) => secrets.get(secretRef.name) ?? "unknown",
    );
    const env = Object.fromEntries(variables.map((variable) => [variable, randomSecret()]));
    const load = {
      webhooks: () => loadConfig(readWebhooks, { dir, env, reader: "gateway" }),
      producer: () => loadConfig(readPostern, { dir, env, reader: "producer" }),
      operator: () => loadConfig(readOperator, { dir, env, reader: "operator" }),
    }[command];
    const { postern, warnings } = load?.() ?? {};
    expect([name, warnings]).toEqual([name, []]);

    const port = (wanted: string) => container.ports.find((each) => each.name === wanted)?.containerPort;
    expect(postern?.ops_address).toBe(`0.0.0.0:${port("ops")}`);
    const probes = [container.readinessProbe.httpGet, container.livenessProbe?.httpGet];
    expect(probes).toEqual([
      { path: "/readyz", port: "ops" },
      { path: "/livez", port: "ops" },
    ]);
  }
});

test("the console has the files of the gateway, so that it knows their endpoints", () => {
  const filesOf = (name: string) =>
    deployments
      .find((deployment) => deployment.name === name)
      ?.pod.volumes.flatMap(({ configMap }) => configMap.items) ?? [];
  expect(filesOf("postern-webhooks")).not.toEqual([]);
  expect(filesOf("postern-console")).toEqual(expect.arrayContaining(filesOf("postern-webhooks")));
});

test("a pod gets longer to stop than docs/operations.md says that its process takes, with the drain of the manifests", () => {
  const drain = Number(/drain_secs = (\d+)/.exec(config.data["postern.toml"] ?? "")?.[1]) - 5;
  const table = readDocument("docs/operations.md").split("## Stopping")[1] ?? "";
  const rows = [...table.matchAll(/^\| (webhooks gateway|producer) \| [^|]+ \| (\d+) s \|$/gm)];
  expect(rows).toHaveLength(2);
  for (const [, process = "", seconds] of rows) {
    const command = process.split(" ")[0];
    const pod = deployments.find(({ container }) => container.args?.[0] === command)?.pod;
    expect(pod?.terminationGracePeriodSeconds, process).toBeGreaterThan(Number(seconds) + drain);
  }
});
