/** The destination of a callback. */
export type Target = {
  /**
   * The URL to call. It contains no braces, because a script finds the end of this object in a stored call by the closing
   * brace (shared/queue/callbacks.lua).
   */
  url: string;
  /**
   * Host, with its port if that is not 80 or 443: `hooks.example.com` or `hooks.example.com/8443`. A slash precedes the port,
   * because names of queues cannot contain colons.
   */
  receiver: string;
};

const CHARS_MAX = 2048;

/**
 * Parses the URL of a receiver, or says what is wrong with it. The host is normalized as the URL standard says: 0x7f.1
 * becomes 127.0.0.1.
 */
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

/** Default ports of https and http. The name of a receiver does not have them. */
const PORTS_UNNAMED = [443, 80];

function receiverOf({ hostname, port }: URL): string {
  const host = hostname.replace(/\.$/, "").replaceAll(":", "-");
  return port === "" || PORTS_UNNAMED.includes(Number(port)) ? host : `${host}/${port}`;
}

/**
 * Parses a receiver as an operator writes it, `HOST` or `HOST/PORT`. Returns the name that `toTarget` gives the same
 * receiver. The host may have any form that is valid in a URL: upper case, an international name, a dot at its end, an IPv6
 * address.
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

/** Returns the ports that the URLs of this receiver may have. */
export function portsOfReceiver(receiver: string): readonly number[] {
  const [, port] = receiver.split("/");
  return port === undefined ? PORTS_UNNAMED : [Number(port)];
}

/**
 * Returns whether the host has an empty label: a dot at its start, or two dots in a row. No such host exists. If the host
 * became a part of a path, its dots could be normalized away, which leads to another path.
 */
function hasEmptyLabel({ hostname }: URL): boolean {
  return /^\.|\.\./.test(hostname);
}

/**
 * Configured list of the receivers that a client may name in its request. `match` returns how the URL's host is listed: by
 * its name or by a wildcard.
 */
export type ReceiverList = { match(url: URL): "host" | "wildcard" | undefined };

type Entry = { protocol: string; port: string; hostname: string; isBelow: boolean };

/** Creates a list from configured entries. They must be valid: `receiverEntryProblem` returns undefined for each. */
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
 * Returns what is wrong with an entry; undefined if it is valid. An entry is a host, such as `hooks.example.com`, or
 * `*.example.com` for all hosts below it. It names the port if that is not 443. Without TLS it begins with `http://`.
 */
export function receiverEntryProblem(text: string): string | undefined {
  const entry = readEntry(text);
  return typeof entry === "string" ? entry : undefined;
}

/** Returns the domain of a wildcard entry; undefined if the entry allows one host only. */
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
