import { useState } from "preact/hooks";
import { type Refused, requestBytes, toRefused } from "./ask.ts";
import type { InputAt, PathOf } from "./contract.ts";
import { isDefiniteRefusal, useRetry } from "./use-retry.ts";

type Bytes = {
  body: Uint8Array | undefined;
  refused: Refused | undefined;
  isBusy: boolean;
  load(): Promise<void>;
};

/**
 * Fetches a body or result only when the user asks for it. If the answer breaks off, the page does not repeat the
 * request by itself, for two reasons. The console cuts off slow readers, and would cut off this one again. Besides,
 * each request reads all bytes again and adds a line to the audit log.
 */
export function useBytes<P extends PathOf<"GET">>(path: P, asked: InputAt<"GET", P>): Bytes {
  const [body, setBody] = useState<Uint8Array | undefined>();
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    try {
      setBody(await requestBytes(path, asked));
      setRefused(undefined);
    } catch (error) {
      setRefused(toRefused(error));
    }
    setBusy(false);
  };
  useRetry(refused, () => void load(), isDefiniteRefusal);
  return { body, refused, isBusy, load };
}
