/** Where a callback goes. */
export type Target = {
  /** As it is called. Scripts look for its end by its braces, so it has none. */
  url: string;
  /** Its host, and its port if that is not 80 or 443, as `hooks.example.com` or `hooks.example.com/8443`: queues' names have no colons. */
  receiver: string;
};

const CHARS_MAX = 2048;

/** The URL of a receiver, or what is wrong with it. Its host has the one form that the URL standard gives it, as 0x7f.1 becomes 127.0.0.1. */
export function readTarget(text: string): { url: URL } | { problem: string } {
  if (text.length > CHARS_MAX) return { problem: `is longer than ${CHARS_MAX} characters` };
  if (!/^[!-~]+$/.test(text)) return { problem: "must be visible ASCII without spaces" };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return { problem: "must be an https URL" };
  if (url.username !== "" || url.password !== "" || /^[^/]*\/\/[^/?#]*@/.test(text))
    return { problem: "must not contain a user or password" };
  if (hasEmptyLabel(url)) return { problem: "must have no empty label in its host" };
  if (text.includes("#")) return { problem: "must not contain a fragment" };
  return { url };
}

export function toTarget(url: URL): Target {
  return { url: url.href.replaceAll("{", "%7B").replaceAll("}", "%7D"), receiver: receiverOf(url) };
}

/** Ports that a receiver's name leaves out: those of https and http. */
const PORTS_UNNAMED = [443, 80];

function receiverOf({ hostname, port }: URL): string {
  const host = hostname.replace(/\.$/, "").replaceAll(":", "-");
  return port === "" || PORTS_UNNAMED.includes(Number(port)) ? host : `${host}/${port}`;
}

/**
 * Reads a receiver as an operator names it, `HOST` or `HOST/PORT`, into the name that `toTarget` gives it. The host may be in any form
 * that a URL may have: another letter case, an international name, a dot at its end, an IPv6 address.
 */
export function readReceiver(text: string): { receiver: string } | { problem: string } {
  const [, host = "", port = "443"] = /^(\[[^\]]*\]|[^/:]+)(?:[/:](\d+))?$/.exec(text) ?? [];
  const written = host.startsWith("[") ? host.replaceAll("-", ":") : host;
  const isPlain = !/[\s\p{Cc}%?#@*\\]/u.test(host);
  const url =
    isPlain && URL.canParse(`https://${written}:${port}`) ? new URL(`https://${written}:${port}`) : undefined;
  if (host === "" || Number(port) === 0 || url === undefined || hasEmptyLabel(url))
    return {
      problem:
        "must be a host, such as hooks.example.com, or a host and a port, such as hooks.example.com/8443",
    };
  return { receiver: receiverOf(url) };
}

/** The ports that callbacks to a receiver of this name go to. */
export function portsOfReceiver(receiver: string): readonly number[] {
  const [, port] = receiver.split("/");
  return port === undefined ? PORTS_UNNAMED : [Number(port)];
}

/** No such host exists, and a path with it could mean another one. */
function hasEmptyLabel({ hostname }: URL): boolean {
  return /^\.|\.\./.test(hostname);
}

/** Receivers that requests may name. `match` says whether the URL's host has an entry of its own. */
export type ReceiverList = { match(url: URL): "host" | "wildcard" | undefined };

type Entry = { protocol: string; port: string; hostname: string; isBelow: boolean };

/** Takes entries that `receiverEntryProblem` finds nothing wrong with. */
export function createReceiverList(entries: readonly string[]): ReceiverList {
  const read = entries.map(readEntry).filter((entry) => typeof entry !== "string");
  return {
    match({ protocol, port, hostname }) {
      const fitting = read.filter(
        (entry) =>
          entry.protocol === protocol &&
          entry.port === port &&
          (entry.isBelow ? hostname.endsWith(`.${entry.hostname}`) : hostname === entry.hostname),
      );
      if (fitting.length === 0) return undefined;
      return fitting.every(({ isBelow }) => isBelow) ? "wildcard" : "host";
    },
  };
}

/**
 * What is wrong with an entry that should be a host, as `hooks.example.com`, or `*.example.com` for all that are below it; with a port, if
 * it is not 443. Without TLS it begins with `http://`.
 */
export function receiverEntryProblem(text: string): string | undefined {
  const entry = readEntry(text);
  return typeof entry === "string" ? entry : undefined;
}

/** The name below which an entry allows every host; undefined if it allows one host only. */
export function wildcardDomain(text: string): string | undefined {
  const entry = readEntry(text);
  return typeof entry !== "string" && entry.isBelow ? entry.hostname : undefined;
}

function readEntry(text: string): Entry | string {
  const [, scheme = "https://", below, host = ""] = /^(http:\/\/)?(\*\.)?([^/*@?#]+)$/.exec(text) ?? [];
  const url = URL.canParse(`${scheme}${host}`) ? new URL(`${scheme}${host}`) : undefined;
  if (url === undefined)
    return 'must be a host, such as "hooks.example.com" or "*.example.com", with its port if that is not 443';
  if (url.host !== host) return `must be written as ${url.host}`;
  const isBelow = below !== undefined;
  if (isBelow && !/^[^.[]+\.[^.]/.test(host))
    return "allows a whole top-level domain: name a domain below it";
  return { protocol: url.protocol, port: url.port, hostname: url.hostname, isBelow };
}
