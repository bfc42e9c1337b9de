import { expect, test } from "vitest";
import { DocumentsOfEndpoints } from "../../../services/webhooks-gateway/fetched-documents.ts";
import { recordingLog } from "../../support/recording-log.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const URL_OF_KEYS = "https://keys.example.com/keys?token=hidden";
const SENDER = "198.51.100.7";

/** Creates a server of key lists. A test sets the published documents and the time. */
function publisher() {
  const log = recordingLog();
  const state = { now: 0, keys: ["a"] as string[] | Error, fetched: [] as string[] };
  const options = {
    async getText(url: string) {
      state.fetched.push(url);
      if (url.includes("bogus")) throw new Error("status 404");
      if (state.keys instanceof Error) throw state.keys;
      return JSON.stringify(state.keys);
    },
    clock: () => state.now,
    log,
  };
  const parse = (text: string) => JSON.parse(text) as string[];
  function open(earlier?: DocumentsOfEndpoints) {
    const all = new DocumentsOfEndpoints(options, earlier);
    const documents = all.open("/hook", parse);
    /** Resolves with true if a version of the document has the key. */
    const find = async (key: string, url = URL_OF_KEYS, address = SENDER) => {
      for await (const keys of documents.versions(url, address)) if (keys.includes(key)) return true;
      return false;
    };
    return { all, documents, find };
  }
  return { state, log, open, ...open() };
}

const UNAVAILABLE = { code: "webhook.keys_unavailable" };
const at = (name: string | number) => `https://keys.example.com/${name}`;

test("requests that need the same document share one fetch", async () => {
  const { state, find } = publisher();
  expect(await Promise.all([find("a"), find("a"), find("b")])).toEqual([true, true, false]);
  expect(state.fetched).toHaveLength(1);
});

test("an unknown key is fetched again at most once a minute, and until then requests with it are neither accepted nor refused", async () => {
  const { state, find } = publisher();
  await find("a");
  state.keys = ["a", "b"];
  state.now = MINUTE - 1;
  await expect(find("b")).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterMs: 1 });
  expect(await find("a")).toBe(true);
  state.now = MINUTE;
  expect(await find("b")).toBe(true);
  expect(state.fetched).toHaveLength(2);
});

test("a failed fetch is retried after 5 s, and not earlier", async () => {
  const { state, find } = publisher();
  state.keys = new Error("no answer within 5000 ms");
  await expect(find("a")).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterMs: 5 * SECOND });
  state.keys = ["a"];
  state.now = 5 * SECOND - 1;
  await expect(find("a")).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterMs: 1 });
  state.now = 5 * SECOND;
  expect([await find("a"), state.fetched.length]).toEqual([true, 2]);
});

test("a fetch that began before a request cannot decide that the request's key is wrong", async () => {
  const { state, find } = publisher();
  const first = find("b");
  state.now = 1;
  const joined = find("b");
  expect(await first).toBe(false);
  await expect(joined).rejects.toMatchObject(UNAVAILABLE);
  expect(state.fetched).toHaveLength(1);
});

test("a check that fails with the kept document is tried again with a newer one", async () => {
  const { state, documents, find } = publisher();
  await find("a");
  state.now = MINUTE;
  state.keys = ["a", "new"];
  const seen: string[][] = [];
  for await (const keys of documents.versions(URL_OF_KEYS, SENDER)) seen.push(keys);
  expect(seen).toEqual([["a"], ["a", "new"]]);
});

test("a flood of URLs that do not exist causes 30 fetches at once and 30 a minute, and delays no other network", async () => {
  const { state, documents, find } = publisher();
  for (let minute = 1; minute <= 5; minute++) {
    // An IPv6 subscriber has many addresses.
    for (let n = 0; n < 1000; n++)
      await find("a", at(`bogus-${minute}-${n}`), `2001:db8:0:${n}::1`).catch(() => {});
    expect(await find("a", at(minute))).toBe(true);
    documents.markProven(at(minute));
    expect(state.fetched.length).toBeLessThanOrEqual(30 * minute);
    state.now += MINUTE;
  }
});

test("a flood from several networks delays others only until each of these networks has used one fetch", async () => {
  const { state, find } = publisher();
  const flood = async () => {
    for (let n = 0; n < 40; n++)
      await find("a", at(`bogus-${state.now}-${n}`), `203.0.113.${n}`).catch(() => {});
  };
  await flood();
  await expect(find("a", at(1))).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterMs: 5 * SECOND });
  for (let second = 0; second < 30; second++) {
    state.now += SECOND;
    await flood();
  }
  expect(await find("a", at(1))).toBe(true);
});

test("documents that have verified nothing displace only each other", async () => {
  const { state, documents, find } = publisher();
  await find("a", at("genuine"));
  documents.markProven(at("genuine"));
  for (let n = 0; n < 40; n++) {
    state.now += 4 * SECOND;
    await find("a", at(n));
  }
  state.fetched.length = 0;
  expect(await find("a", at("genuine"))).toBe(true);
  expect(await find("a", at(39))).toBe(true);
  expect(state.fetched).toEqual([]);
  expect(await find("a", at(0))).toBe(true);
  expect(state.fetched).toEqual([at(0)]);
});

test("a network whose documents verify deliveries may fetch any number of them", async () => {
  const { documents, find } = publisher();
  for (let n = 0; n < 30; n++) {
    expect(await find("a", at(n))).toBe(true);
    documents.markProven(at(n));
  }
});

test("a document that has verified a delivery is renewed, no matter how many others are requested", async () => {
  const { state, documents, find } = publisher();
  await find("a");
  documents.markProven(URL_OF_KEYS);
  state.now = HOUR;
  for (let n = 0; n < 100; n++) await find("a", at(n), `203.0.113.${n}`).catch(() => {});
  state.keys = ["b"];
  await find("a");
  expect(await find("b")).toBe(true);
});

test("a document older than an hour is used while it is fetched again, and for at most a day while fetches fail", async () => {
  const { state, find, log } = publisher();
  await find("a");
  state.keys = new Error("no answer within 5000 ms");
  state.now = HOUR;
  expect(await find("a")).toBe(true);
  expect(state.fetched).toHaveLength(2);
  state.now = 24 * HOUR - 1;
  expect(await find("a")).toBe(true);
  state.now = 25 * HOUR;
  await expect(find("a")).rejects.toMatchObject(UNAVAILABLE);
  // The query of the URL may be secret, so it is not logged.
  expect(log.events[0]).toMatchObject({
    event: "webhook.keys_unfetched",
    fields: { path: "/hook", url: at("keys"), reason: "no answer within 5000 ms" },
  });
});

test("a withdrawn key no longer counts once the document was fetched again", async () => {
  const { state, find } = publisher();
  await find("a");
  state.keys = ["b"];
  state.now = HOUR;
  await find("a");
  state.now += MINUTE;
  expect(await find("a")).toBe(false);
});

test("a clock that is set back neither blocks fetches nor keeps documents in use", async () => {
  const { state, find } = publisher();
  state.now = 48 * HOUR;
  await find("a");
  state.now = HOUR;
  state.keys = ["b"];
  expect(await find("a")).toBe(false);
});

test("a reload keeps the documents and their age while the key server is down", async () => {
  const { state, all, documents, find, open } = publisher();
  await find("a");
  documents.markProven(URL_OF_KEYS);
  state.keys = new Error("no answer within 5000 ms");
  const next = open(open(all).all);
  expect(await next.find("a")).toBe(true);
  await expect(next.find("b")).rejects.toMatchObject({ ...UNAVAILABLE, retryAfterMs: MINUTE });
  expect(state.fetched).toHaveLength(1);
  state.now = 24 * HOUR;
  await expect(next.find("a")).rejects.toMatchObject(UNAVAILABLE);
});
