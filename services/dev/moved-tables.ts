import type { ConfigTables, Table } from "../../shared/config/config-tables.ts";
import { isLoopback } from "../../shared/config/fields.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import type { Checked, Own } from "./own-config.ts";
import type { Ports } from "./ports.ts";

/**
 * Returns the operator's configuration, adapted to the ports of --port-base. All servers listen on these ports. URLs of
 * a node or facilitator on this machine become those of the devnet.
 */
export async function movedTables(
  { tables, checked }: Own,
  devnet: Devnet | undefined,
  ports: Ports,
): Promise<ConfigTables> {
  const { webhooks, x402, pricing, operator } = tables;
  return {
    ...tables,
    ...(webhooks && {
      webhooks: {
        ...webhooks,
        bind_address: withPort(checked?.webhooks?.bind_address, await ports.of("webhooks")),
      },
    }),
    ...(x402 && checked?.x402 && { x402: moveX402(x402, checked.x402, await ports.of("x402"), devnet) }),
    ...(operator && { operator: moveOperator(operator, await ports.of("operator")) }),
    ...(pricing && checked?.pricing && { pricing: await movePricing(pricing, checked.pricing, ports) }),
  };
}

type X402 = NonNullable<Checked["x402"]>;

function moveX402(table: Table, checked: X402, port: number, devnet: Devnet | undefined): Table {
  const moved = {
    ...table,
    bind_address: withPort(checked.bind_address, port),
    ...(isLoopback(checked.public_url) && { public_url: urlWithPort(checked.public_url, port) }),
  };
  return devnet === undefined ? moved : { ...moved, ...onDevnet(table, checked, devnet) };
}

/** Returns tables in which the URLs of nodes and facilitators on this machine are replaced with those of the devnet. */
function onDevnet(
  table: Table,
  { accepted_tokens: tokens, job_policies, facilitators }: X402,
  devnet: Devnet,
) {
  const nodes = (rows: unknown, checked: readonly object[]) =>
    (rows as Table[] | undefined)?.map((row, i) => {
      const { rpc_url: node } = checked[i] as { rpc_url?: { reveal(): string } };
      return node !== undefined && isLoopback(node.reveal()) ? { ...row, rpc_url: devnet.rpcUrl } : row;
    });
  const urls = facilitators.map(({ url }) => (isLoopback(url) ? devnet.facilitatorUrl : url));
  const rows = table["facilitators"] as Table[] | undefined;
  const policies = nodes(table["job_policies"], job_policies);
  return {
    accepted_tokens: nodes(table["accepted_tokens"], tokens) ?? [],
    ...(policies && { job_policies: policies }),
    ...(rows === undefined
      ? { facilitator_url: [...new Set(urls)] }
      : { facilitators: rows.map((row, i) => ({ ...row, url: urls[i] ?? "" })) }),
  };
}

async function movePricing(
  table: Table,
  { bind_address, http_address }: NonNullable<Checked["pricing"]>,
  ports: Ports,
): Promise<Table> {
  return {
    ...table,
    bind_address: withPort(bind_address, await ports.of("pricingGrpc")),
    ...(http_address !== false && { http_address: withPort(http_address, await ports.of("pricingHttp")) }),
  };
}

/** Replaces the console's port in its table. The values are not validated here, because the console does it when it starts. */
function moveOperator(table: Table, port: number): Table {
  const { bind_address: bound, public_url: url } = table;
  return {
    ...table,
    bind_address: withPort(typeof bound === "string" ? bound : undefined, port),
    ...(typeof url === "string" && isLoopback(url) && { public_url: urlWithPort(url, port) }),
  };
}

function withPort(address = "127.0.0.1:0", port: number): string {
  return address.replace(/\d+$/, String(port));
}

function urlWithPort(url: string, port: number): string {
  const moved = new URL(url);
  moved.port = String(port);
  return moved.href.replace(/\/$/, "");
}
