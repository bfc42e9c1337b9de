import { useState } from "preact/hooks";
import { askBytes, type Refused, toRefused } from "./ask.ts";

type Bytes = {
  body: Uint8Array | undefined;
  refused: Refused | undefined;
  isBusy: boolean;
  load(): Promise<void>;
};

/** Bytes that are fetched only when somebody asks for them. */
export function useBytes(path: string): Bytes {
  const [body, setBody] = useState<Uint8Array | undefined>();
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    try {
      setBody(await askBytes(path));
      setRefused(undefined);
    } catch (error) {
      setRefused(toRefused(error));
    }
    setBusy(false);
  };
  return { body, refused, isBusy, load };
}
