import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { SessionView } from "../../../shared/console/contract/session.ts";
import { ask, Refused } from "./ask.ts";

export type { SessionView };

const CurrentSession = createContext<SessionView | undefined>(undefined);
export const SessionProvider = CurrentSession.Provider;

export function useMayOperate(): boolean {
  return useContext(CurrentSession)?.role === "operator";
}

export const useSession = (): SessionView | undefined => useContext(CurrentSession);

/** Undefined if nobody is signed in. */
export async function readSession(): Promise<SessionView | undefined> {
  try {
    return await ask("GET", "session", {});
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return undefined;
    throw error;
  }
}

/** The token is exchanged for a cookie that no script can read, and forgotten here. */
export function signIn(token: string): Promise<SessionView> {
  return ask("POST", "session", { token });
}

export function signOut(): Promise<unknown> {
  return ask("DELETE", "session", {});
}
