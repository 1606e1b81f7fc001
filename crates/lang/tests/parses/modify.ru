PREFIX ex: <http://example.org/>
INSERT DATA { ex:a ex:p 1 . GRAPH ex:g { _:b ex:p "x"@en } } ;
WITH ex:g DELETE { ?s ex:p ?o } INSERT { ?s ex:q [ ex:was ?o ] . GRAPH ?h { ?s a ex:C } } USING NAMED ex:h WHERE { GRAPH ?h { ?s ex:p ?o } } ;
DELETE WHERE { ?s ex:old ?o } ;
LOAD SILENT ex:doc INTO GRAPH ex:g ; CLEAR NAMED ; MOVE ex:g TO DEFAULT
