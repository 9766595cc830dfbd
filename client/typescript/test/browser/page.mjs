import * as listwatch from "listwatch/web";

globalThis.listwatch = listwatch;
