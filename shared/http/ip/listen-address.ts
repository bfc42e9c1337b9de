import { isIPv4, isIPv6 } from "node:net";

/** Address on which a server listens. An IPv6 host has no brackets. */
export type ListenAddress = { host: string; port: number };

const THIS_MACHINE = "127.0.0.1";
const PORT_MAX = 65_535;
const EXAMPLE = 'such as "127.0.0.1:9090", or "0.0.0.0:9090" for every address of this machine';

/**
 * Reads `host:port`. A port alone, with or without a colon before it, listens on this machine only. To listen for other
 * machines, the text must name a host. For any other text, returns the problem; nothing is guessed. Port 0 means any
 * free port, and must have a host.
 */
export function readListenAddress(text: string): ListenAddress | string {
  const port = /^:?(\d+)$/.exec(text)?.[1];
  if (port !== undefined && Number(port) === 0) return `must have a host and a port, ${EXAMPLE}`;
  if (port !== undefined) return withPort(THIS_MACHINE, port);
  const parts = /^(?<host>\[[^\]]*\]|[^:[\]]+):(?<port>\d+)$/.exec(text)?.groups;
  return parts === undefined ? whyUnclear(text) : withPort(parts["host"] ?? "", parts["port"] ?? "");
}

/** Formats `host:port`, with an IPv6 address in brackets. */
export function listenAddressText({ host, port }: ListenAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function withPort(written: string, port: string): ListenAddress | string {
  if (Number(port) > PORT_MAX) return `has a port above ${PORT_MAX}`;
  const host = readHost(written);
  return typeof host === "string" ? host : { host: host.host, port: Number(port) };
}

const HOST_NAME = /^(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*$/;

function readHost(written: string): { host: string } | string {
  const inner = /^\[(.*)\]$/.exec(written)?.[1];
  if (inner !== undefined)
    return isIPv6(inner)
      ? { host: inner }
      : `must have an IPv6 address in its brackets, such as "[::1]:9090"`;
  // `localhost` has an IPv4 and an IPv6 address, but a server listens on one. Clients on this machine try both, so they
  // also find a server that listens only on IPv4.
  if (written.toLowerCase() === "localhost") return { host: THIS_MACHINE };
  if (written === "*") return `has no host: write "0.0.0.0" for every IPv4 address, "[::]" for IPv6 too`;
  const looksNumeric = /^[\d.]+$/.test(written);
  if (looksNumeric ? isIPv4(written) : HOST_NAME.test(written)) return { host: written };
  return `must have a host name or an IP address, ${EXAMPLE}`;
}

function whyUnclear(text: string): string {
  if (text === "") return "is empty";
  if (text.includes("/")) return `is a URL or a path: must be "host:port", ${EXAMPLE}`;
  if (isIPv6(text) || /^[0-9a-fA-F:]*::[0-9a-fA-F:]*$/.test(text))
    return 'must have its IPv6 address in brackets, such as "[::1]:9090"';
  if (/^(?:\[[^\]]*\]|[^:]+):?$/.test(text)) return `has no port: must be "host:port", ${EXAMPLE}`;
  return `must be "host:port", ${EXAMPLE}`;
}
