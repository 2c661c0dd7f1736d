# Writes OUTPUT, a source that defines the char array SYMBOL with the text of INPUT.
file(READ ${INPUT} content)
file(WRITE ${OUTPUT}
     "namespace warptune {\nextern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = R\"=TEXT=(${content})=TEXT=\";\n}\n")
