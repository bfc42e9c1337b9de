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
 * Fetches bytes only when the user asks for them. If the answer breaks off, the page does not repeat the request by
 * itself: the service cuts off a slow reader, and would cut it off again. Each request reads all bytes again and leaves
 * a line in the audit log.
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
