package listwatch

// Version is this module's version. It goes with that of the server it was tested with.
const Version = "0.1.0"
